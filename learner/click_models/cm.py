"""CM: the user reads from the top, clicks once and leaves."""

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.browsing import previous_click
from learner.click_models.log import ClickLog
from learner.click_models.model import ClickModel
from learner.click_models.prior import Beta

STRAY = 1e-6
"""Chance of a click below the first one. CM says it cannot happen; 0 would make one such click in a million lists
cost the whole log its likelihood, so that nothing could be compared any more."""


class CM(ClickModel):
    """The cascade model of Craswell et al. (2008), by counting.

    An item's attractiveness is (1 + clicks)/(2 + n) over the rows up to and including the first click, all rows of a
    list without one. Below the first click nothing is examined, so nothing is learned there; in the measures each
    position there has the click chance ``STRAY``, one in a million, instead of 0, so a list with
    more clicks than one costs much, but not everything.

    Examples
    --------
    >>> model = CM().fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.attractiveness([1, 2, 3])
    array([0.8       , 0.33333333, 0.5       ])
    """

    def _table_of(self, log: ClickLog, cell: Ints, rows: Ints, possible: Bools) -> Floats:
        table = np.zeros(possible.shape)
        table[:, 0] = 1.0
        return table

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        shown = log.shown
        read = (previous_click(log.clicks) == 0)[shown]
        clicked = np.bincount(pair[read & log.clicks[shown]], minlength=pairs).astype(np.float64)
        rows = np.bincount(pair[read], minlength=pairs).astype(np.float64)
        self._prior = self.prior if isinstance(self.prior, Beta) else Beta.learned(clicked, rows)
        return self._prior.share(clicked, rows)

    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        return np.where(previous_click(clicks) == 0, self._attracted(pair), STRAY)

    def _marginal(self, pair: Ints) -> Floats:
        attractiveness = self._attracted(pair)
        reached = np.ones(attractiveness.shape)
        np.cumprod(1 - attractiveness[:, :-1], axis=1, out=reached[:, 1:])
        return reached * attractiveness + (1 - reached) * STRAY
