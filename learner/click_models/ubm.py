"""UBM: a row is examined depending on its position and on the last click above it."""

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.browsing import previous_click
from learner.click_models.em import EmModel
from learner.click_models.log import ClickLog
from learner.click_models.model import filled


class UBM(EmModel):
    """The user browsing model of Dupret and Piwowarski (2008): P(click) = attractiveness · w[k, k′], by EM.

    After ``fit``, ``examination`` is the K×K table w[k − 1, k′] that UBM-LinUCB takes, k′ = 0 meaning no click above
    and 0 where k′ ≥ k, and ``observations`` counts the rows behind each cell. A cell without any takes the mean of its
    row's observed ones, since a guess of 0.5 would look like a measurement; ``unobserved`` counts these cells and a
    warning says so. (Every row has an observed cell, as the longest list has a row at each position.)

    Clicks tell only the products of attractiveness and examination: where neither comes near 1 anywhere, a common
    factor between the two depends on the start, and only ratios within the table are known.

    Examples
    --------
    >>> model = UBM().fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.observations
    array([[3, 0],
           [1, 2]])
    >>> model.examination.round(2)
    array([[0.71, 0.  ],
           [0.67, 0.61]])
    >>> model.attractiveness([1, 2, 3]).round(2)
    array([0.8, 0.5, 0.5])
    """

    fits_table = True

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        rank = np.arange(log.positions)
        cell = rank * (rank + 1) // 2 + previous_click(log.clicks)  # the triangle k′ < k, row by row
        estimate, cell_shown = self._maximise(log, pair, pairs, cell, cells=len(rank) * (len(rank) + 1) // 2)
        possible = np.tri(log.positions, dtype=np.bool_)
        examination = np.zeros(possible.shape)
        examination[possible] = estimate.examination
        self.observations = np.zeros(possible.shape, dtype=np.int64)
        self.observations[possible] = cell_shown
        self.examination, self.unobserved = filled(examination, self.observations, possible)
        return estimate.attractiveness

    def _conditional(self, pair: Ints, clicks: Bools) -> Floats:
        return self._attracted(pair) * self.examination[np.arange(clicks.shape[1]), previous_click(clicks)]

    def _marginal(self, pair: Ints) -> Floats:
        attractiveness = self._attracted(pair)
        lists, positions = attractiveness.shape
        click = np.empty((lists, positions))
        last = np.zeros((lists, positions + 1))  # P(the last click so far was at k′)
        last[:, 0] = 1.0
        for rank in range(positions):
            above = last[:, : rank + 1]
            here = above * (attractiveness[:, rank, np.newaxis] * self.examination[rank, : rank + 1])
            above -= here
            click[:, rank] = last[:, rank + 1] = here.sum(axis=1)
        return click
