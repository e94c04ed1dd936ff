"""Whether users still browse as the table in force says: conditional perplexity, window by window."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.click_models import CLICK_MODELS, ClickModel, GivenTable

WINDOW = 5_000  # lists: models learn on one and are judged on the next
IN_FORCE, FRESH = "table in force", "fresh fit"
CERTAIN = 5.0  # standard errors: a million lists are 200 windows of eight models, and none may be blamed by chance
WORTH = 0.002  # of the perplexity: a smaller gain changes no ranking


@dataclass(frozen=True, slots=True)
class WindowFit:
    """How well each model foretold the clicks of one window."""

    lists: int  # seen by the end of the window
    perplexity: dict[str, float]  # of a position, given the clicks above
    best: str
    gain: float  # by how much the best one's perplexity is lower than that of the table in force, as a share
    certainty: float  # of that gain, in standard errors

    @property
    def changed(self) -> bool:
        """Whether another model is better than the table in force beyond doubt, and by enough to matter."""
        return self.best != IN_FORCE and self.certainty >= CERTAIN and self.gain >= WORTH


class ListColumns(NamedTuple):
    """Lists of up to K positions."""

    items: NDArray[np.int64]  # (lists, K)
    clicks: NDArray[np.bool_]
    sizes: NDArray[np.int64]

    def part(self, start: int, stop: int | None) -> ListColumns:
        """Return some of the lists."""
        return ListColumns(self.items[start:stop], self.clicks[start:stop], self.sizes[start:stop])


def window_fits(lists: ListColumns, examination: NDArray[np.float64]) -> list[WindowFit]:
    """Judge the table in force against a fresh fit and the other click models, on lists in the order of time."""
    starts = range(WINDOW, len(lists.sizes) - WINDOW + 1, WINDOW)
    return [_judge(lists, examination, start) for start in starts]


def _judge(lists: ListColumns, examination: NDArray[np.float64], start: int) -> WindowFit:
    before, now = lists.part(start - WINDOW, start), lists.part(start, start + WINDOW)
    models: dict[str, ClickModel] = {IN_FORCE: GivenTable(examination)}
    models |= {FRESH if kind.fits_table else kind.__name__: kind.quick() for kind in CLICK_MODELS.values()}
    likelihood: dict[str, NDArray[np.float64]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cells that no list reached: a window is short
        for name, model in models.items():
            model.fit(before.items, before.clicks, sizes=before.sizes)
            likelihood[name] = model.log_likelihood_per_list(now.items, now.clicks, sizes=now.sizes)
    best = max(likelihood, key=lambda name: float(likelihood[name].mean()))
    more = likelihood[best] - likelihood[IN_FORCE]
    error = float(more.std()) / np.sqrt(len(more))
    positions = float(now.sizes.mean())
    return WindowFit(
        lists=start + WINDOW,
        perplexity={name: float(np.exp(-each.mean() / positions)) for name, each in likelihood.items()},
        best=best,
        gain=float(-np.expm1(-more.mean() / positions)),
        certainty=float(more.mean()) / error if error > 0 else 0.0,
    )


def changed_at(fits: Sequence[WindowFit]) -> int | None:
    """Return after how many lists users began to browse differently and have done so since; None: they do not now."""
    since = takewhile(lambda fit: fit.changed, reversed(fits))
    return min((fit.lists for fit in since), default=None)
