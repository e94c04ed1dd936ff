"""Whether users still browse as the table in force says: conditional perplexity, window by window."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.click_models import CCM, CM, DBN, DCM, PBM, SDBN, UBM, GivenTable
from learner.click_models.model import ClickModel

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


class BrowsingWatch:
    """Judges the table in force against a fresh fit and the other click models, on lists in the order of time."""

    def __init__(self, examination: NDArray[np.float64]) -> None:
        self.examination = examination
        self.fits: list[WindowFit] = []
        self._lists = 0
        self._waiting: list[ListColumns] = []
        self._before: ListColumns | None = None

    def add(self, lists: ListColumns) -> None:
        """Take lists in the order in which they were shown."""
        self._waiting.append(lists)
        while sum(len(part.sizes) for part in self._waiting) >= WINDOW:
            every = ListColumns(*(np.concatenate(column) for column in zip(*self._waiting, strict=True)))
            self._waiting = [every.part(WINDOW, None)]
            self._judge(every.part(0, WINDOW))

    def _judge(self, now: ListColumns) -> None:
        before, self._before = self._before, now
        self._lists += WINDOW
        if before is None:
            return
        models: dict[str, ClickModel] = {IN_FORCE: GivenTable(self.examination), FRESH: UBM(20)}
        models |= {"PBM": PBM(20), "CM": CM(), "DCM": DCM(), "SDBN": SDBN(), "DBN": DBN(10), "CCM": CCM(10)}
        told: dict[str, NDArray[np.float64]] = {}
        for name, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of cells that no list reached: a window is short
                model.fit(before.items, before.clicks, sizes=before.sizes)
                told[name] = model.log_likelihood_per_list(now.items, now.clicks, sizes=now.sizes)
        best = max(told, key=lambda name: float(told[name].mean()))
        more = told[best] - told[IN_FORCE]
        error = float(more.std()) / np.sqrt(len(more))
        positions = float(now.sizes.mean())
        self.fits.append(
            WindowFit(
                lists=self._lists,
                perplexity={name: float(np.exp(-found.mean() / positions)) for name, found in told.items()},
                best=best,
                gain=float(-np.expm1(-more.mean() / positions)),
                certainty=float(more.mean()) / error if error > 0 else 0.0,
            )
        )

    @property
    def changed_at(self) -> int | None:
        """After how many lists users were first found to browse differently, and have since; None: they do not now."""
        found = None
        for fit in self.fits:
            found = (found or fit.lists) if fit.changed else None
        return found
