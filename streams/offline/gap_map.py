"""The map of where weights pay, as it was measured: what a reader's own table may expect.

``gap_map.json`` is what `glimpse experiment gap` writes as map.json.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from learner.experiments.summary import Mean
from schemas.json_text import parse_json


@dataclass(frozen=True, slots=True)
class GapCell:
    """One kind of traffic: w = 0.95/k^power, a mean γ, and the lift of UBM-LinUCB over C²UCB there, both α tuned."""

    power: float
    level: float
    rounds: int
    changing: Mean  # with candidates that change from visit to visit
    fixed: Mean  # with always the same


@cache
def gap_cells() -> tuple[GapCell, ...]:
    """Return the measured cells."""
    rows = parse_json(files("streams.offline").joinpath("gap_map.json").read_text(encoding="utf-8"))
    return tuple(
        GapCell(row["power"], row["level"], row["rounds"], Mean(*row["changing"]), Mean(*row["fixed"])) for row in rows
    )


def nearest_cell(steepness: float, level: float) -> GapCell:
    """Return the cell that a table lies in: its steps are factors, of steepness and of clicks.

    >>> (found := nearest_cell(0.9, 0.4)).power, found.level
    (1.0, 0.3)
    """

    def away(cell: GapCell) -> float:
        steep = math.log2(max(steepness, 1e-3) / cell.power)
        return steep**2 + (math.log(max(level, 1e-6) / cell.level) / math.log(3)) ** 2

    return min(gap_cells(), key=away)
