"""PBM: a row is examined depending on its position alone."""

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.click_models.em import EmModel
from learner.click_models.log import ClickLog


class PBM(EmModel):
    """The position-based model: P(click) = attractiveness · w[k], by EM.

    After ``fit``, ``examination`` has one chance per position, as PBM-UCB takes it, and ``observations`` the number
    of lists that reach the position: never 0, as K is the length of the longest. As in UBM, a factor common to all
    examinations is known only where something comes near 1.

    Examples
    --------
    >>> model = PBM().fit([[1, 2], [2, 1], [1]], [[1, 0], [1, 0], [1]])
    >>> model.observations
    array([3, 2])
    >>> model.examination.round(2)
    array([0.8 , 0.31])
    """

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        cell = np.broadcast_to(np.arange(log.positions), log.clicks.shape)
        estimate, self.observations = self._maximise(log, pair, pairs, cell, cells=log.positions)
        self.examination = estimate.examination
        return estimate.attractiveness

    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        return self._marginal(pair)

    def _marginal(self, pair: Ints) -> Floats:
        return self._attracted(pair) * self.examination[: pair.shape[1]]
