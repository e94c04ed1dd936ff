"""Click models whose user reads from the top until leaving: DCM, SDBN, DBN and CCM, by EM.

They differ in the chance to read on after a click and after a row without one. Down to the last click everything was
read; whether the user read on below it is not known, and EM takes the chance of that given that nothing there was
clicked.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.click_models.log import ClickLog
from learner.click_models.model import ClickModel, filled
from learner.click_models.prior import LAPLACE, Beta, Prior

PRIOR_EVERY = 10  # iterations between two looks at an empirical prior


@dataclass(frozen=True, slots=True)
class Reading:
    """What is expected of a log's rows, as (lists, K) matrices that are 0 beyond a list's end."""

    pair: Ints
    clicked: Floats
    read: Floats  # P(this row was read)
    stayed: Floats  # P(it was read, and the next one too); 0 at a list's end, where nobody can tell
    told: Floats  # 1 where another row follows, so that staying means something


class ReadingModel(ClickModel):
    """A click model of where reading ends, fitted by EM with a prior for what belongs to a pair.

    Parameters
    ----------
    iterations
        How many steps of EM to run; 0 counts as the papers do, as if the last click had ended the reading. None takes
        50, or 0 for DCM and SDBN.
    prior
        As for all click models.
    """

    steps: ClassVar[int] = 50
    default_steps: ClassVar[int] = 50
    implies_table: ClassVar[bool] = True

    def __init__(self, iterations: int | None = None, *, prior: Prior = LAPLACE) -> None:
        super().__init__(prior=prior)
        self.iterations = self.default_steps if iterations is None else iterations

    def _table_of(self, log: ClickLog, cell: Ints, rows: Ints, possible: Bools) -> Floats:
        reads = self.reading(self.codes(log), log.clicks)[log.shown]
        means = np.bincount(cell, reads, rows.size).reshape(rows.shape) / np.maximum(rows, 1)
        return filled(np.where(possible, means, 0.0), np.where(possible, rows, 0), possible)[0]

    @abstractmethod
    def _after_click(self, pair: Ints) -> Floats:
        """Return the chance to read on after a click on each row (lists, K)."""

    @property
    def _after_none(self) -> float:
        """The chance to read on after a row without a click."""
        return 1.0

    @abstractmethod
    def _begin(self, pairs: int, positions: int) -> None:
        """Take starting values of all that describes browsing."""

    @abstractmethod
    def _browse(self, reading: Reading, pairs: int, *, prior_too: bool) -> None:
        """Take the values of browsing that the expected reading makes most likely."""

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        codes = np.full(log.shown.shape, pairs)
        codes[log.shown] = pair
        self._prior = self.prior if isinstance(self.prior, Beta) else LAPLACE
        self._begin(pairs, log.positions)
        self._attractiveness = np.full(pairs, self._prior.mean)
        for done in range(self.iterations + 1):
            reading = self._expected(log, codes) if done else _as_counted(log, codes)
            prior_too = self.prior == "empirical" and done % PRIOR_EVERY == 0
            self._browse(reading, pairs, prior_too=prior_too)
            self._attractiveness = self._attraction(reading, pairs, prior_too=prior_too)
        return self._attractiveness

    def _attraction(self, reading: Reading, pairs: int, *, prior_too: bool) -> Floats:
        clicked, read = per_pair(reading.pair, reading.clicked, pairs), per_pair(reading.pair, reading.read, pairs)
        if prior_too:
            self._prior = Beta.learned(clicked, read)
        return self._prior.share(clicked, read)

    def _expected(self, log: ClickLog, pair: Ints) -> Reading:
        """Return the E-step: the rows below the last click were read by those whom nothing there attracted."""
        shown, clicks = log.shown, log.clicks
        lists, positions = clicks.shape
        attracted = np.where(shown, self._attracted(pair), 0.0)
        stays = np.where(clicks, self._after_click(pair), self._after_none)
        below = np.logical_or.accumulate(clicks[:, ::-1], axis=1)[:, ::-1]  # a click here or below
        silent = np.ones((lists, positions + 1))  # P(no click from here on | read here)
        for k in reversed(range(positions)):
            silent[:, k] = (1 - attracted[:, k]) * (self._after_none * silent[:, k + 1] + 1 - self._after_none)
        read, stayed = np.zeros(clicks.shape), np.zeros(clicks.shape)
        reading = np.ones(lists)
        for k in range(positions):
            read[:, k] = reading
            on = stays[:, k] * silent[:, k + 1]
            on = np.divide(on, on + 1 - stays[:, k], out=np.ones(lists), where=on + 1 - stays[:, k] > 0)
            if k + 1 < positions:
                on = np.where(below[:, k + 1], 1.0, on)
            reading = stayed[:, k] = reading * on
        told = np.zeros(shown.shape)
        told[:, :-1] = shown[:, 1:]
        return Reading(pair, clicks.astype(np.float64), read * shown, stayed * told, told)

    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        return self.reading(pair, clicks) * self._attracted(pair)

    def reading(self, pair: Ints, clicks: Bools) -> Floats:
        """Return P(this row is read | the clicks above) of rows given by their pairs' codes (lists, K)."""
        attracted, after_click = self._attracted(pair), self._after_click(pair)
        read = np.empty(attracted.shape)
        reading = np.ones(len(attracted))
        for k in range(attracted.shape[1]):
            read[:, k] = reading
            unclicked = 1 - attracted[:, k] * reading
            passed = np.divide(reading * (1 - attracted[:, k]), unclicked, out=np.zeros(len(read)), where=unclicked > 0)
            reading = np.where(clicks[:, k], after_click[:, k], passed * self._after_none)
        return read

    def _marginal(self, pair: Ints) -> Floats:
        attracted, after_click = self._attracted(pair), self._after_click(pair)
        reading = np.ones(attracted.shape)
        stays = attracted * after_click + (1 - attracted) * self._after_none
        np.cumprod(stays[:, :-1], axis=1, out=reading[:, 1:])
        return reading * attracted


def per_pair(pair: Ints, values: Floats, pairs: int) -> Floats:
    """Return the sum of ``values`` for each pair; rows beyond a list's end have the code ``pairs`` and are left out."""
    return np.bincount(pair.reshape(-1), values.reshape(-1), pairs + 1)[:pairs].astype(np.float64, copy=False)


def _as_counted(log: ClickLog, pair: Ints) -> Reading:
    """Return the reading that the papers count: down to the last click, or to the end when there was none."""
    clicks, shown = log.clicks, log.shown
    here_or_below = np.logical_or.accumulate(clicks[:, ::-1], axis=1)[:, ::-1]
    below = np.zeros(clicks.shape, dtype=np.bool_)
    below[:, :-1] = here_or_below[:, 1:]
    none = ~here_or_below[:, :1]
    clicked, read, stayed, told = (
        each.astype(np.float64) for each in (clicks, (here_or_below | none) & shown, below | none, shown)
    )
    return Reading(pair, clicked, read, stayed, told)
