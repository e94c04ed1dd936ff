"""Work on click logs: fit a table, evaluate a policy, redo the paper's experiments."""

from streams.offline.fit_view import run_fit
from streams.offline.heat_map import svg_map

__all__ = ["run_fit", "svg_map"]
