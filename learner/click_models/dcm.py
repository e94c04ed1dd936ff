"""DCM: the user reads from the top, and after a click goes on with a chance that depends on its position."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learner.click_models.counting import share
from learner.click_models.log import ClickLog
from learner.click_models.model import ClickModel
from learner.click_models.unobserved import filled


class DCM(ClickModel):
    """The dependent click model of Guo, Liu and Wang (2009), by counting.

    As in the paper, a user is taken to have left at the last click, and to have read everything when there was none.
    So an item's attractiveness is (1 + clicks)/(2 + n) over the rows up to and including the last click, all rows
    of a list without one, and ``continuation`` at k is (1 + clicks at k with another one below)/(2 + clicks at k).
    ``observations`` has the clicks at each position; a position without any takes the mean of the others (0.5 if no
    position had one), ``unobserved`` counts these, and a warning says so.

    Examples
    --------
    >>> model = DCM().fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.observations
    array([2, 2])
    >>> model.continuation, model.termination
    (array([0.5 , 0.25]), array([0.5 , 0.75]))
    >>> model.attractiveness([1, 2, 3])
    array([0.8, 0.5, 0.5])
    """

    _table: ClassVar[str] = "continuation"

    continuation: NDArray[np.float64]
    observations: NDArray[np.int64]

    @property
    def termination(self) -> NDArray[np.float64]:
        """Chance that a user leaves after a click, per position."""
        return 1 - self.continuation

    def _learn(self, log: ClickLog, pair: NDArray[np.int64], pairs: int) -> NDArray[np.float64]:
        shown, clicks = log.shown, log.clicks
        from_here = np.logical_or.accumulate(clicks[:, ::-1], axis=1)[:, ::-1]  # is there a click at k or below?
        read = (from_here | ~from_here[:, :1])[shown]
        self.observations = clicks.sum(axis=0)
        went_on = np.append((clicks[:, :-1] & from_here[:, 1:]).sum(axis=0), 0)  # below the last there is no click
        continuation = (1 + went_on) / (2 + self.observations)
        every = np.ones((1, log.positions), dtype=np.bool_)
        [self.continuation], self.unobserved = filled(continuation[np.newaxis], self.observations[np.newaxis], every)
        return share(pair[read], clicks[shown][read], pairs)

    def _conditional(self, attractiveness: NDArray[np.float64], clicks: NDArray[np.bool_]) -> NDArray[np.float64]:
        click = np.empty(attractiveness.shape)
        reading = np.ones(len(attractiveness))  # P(still reading | the clicks above)
        for rank in range(attractiveness.shape[1]):
            attracted = attractiveness[:, rank]
            click[:, rank] = attracted * reading
            passed = reading * (1 - attracted) / (1 - click[:, rank])
            reading = np.where(clicks[:, rank], self.continuation[rank], passed)
        return click

    def _marginal(self, attractiveness: NDArray[np.float64]) -> NDArray[np.float64]:
        termination = self.termination[: attractiveness.shape[1]]
        reading = np.ones(attractiveness.shape)
        np.cumprod((1 - attractiveness * termination)[:, :-1], axis=1, out=reading[:, 1:])
        return attractiveness * reading
