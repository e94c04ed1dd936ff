"""Baselines that know nothing of items: one click rate for all rows, or one per position."""

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.click_models.log import ClickLog
from learner.click_models.model import ClickModel


class Constant(ClickModel):
    """Every row is clicked with the same chance: what any click model must beat.

    >>> Constant().fit([[1, 2], [2, 1]], [[1, 0], [0, 0]]).rates
    array([0.33333333, 0.33333333])
    """

    rates: Floats

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        self.rates = np.full(log.positions, (1 + log.clicks.sum()) / (2 + log.shown.sum()))
        return np.full(pairs, 0.5)

    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        return self._marginal(pair)

    def _marginal(self, pair: Ints) -> Floats:
        return np.broadcast_to(self.rates[: pair.shape[1]], pair.shape)


class PositionOnly(Constant):
    """A row is clicked with the chance of its position, whatever stands there: a model of items must beat it.

    >>> PositionOnly().fit([[1, 2], [2, 1]], [[1, 0], [1, 0]]).rates
    array([0.75, 0.25])
    """

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        self.rates = (1 + log.clicks.sum(axis=0)) / (2 + log.shown.sum(axis=0))
        return np.full(pairs, 0.5)
