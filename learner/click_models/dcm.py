"""DCM: the user reads from the top, and after a click goes on with a chance that depends on its position."""

from typing import ClassVar

import numpy as np

from learner.arrays import Floats, Ints
from learner.click_models.model import filled
from learner.click_models.prior import LAPLACE
from learner.click_models.reading import Reading, ReadingModel


class DCM(ReadingModel):
    """The dependent click model of Guo, Liu and Wang (2009), by counting or by EM.

    As in the paper, counting takes a user to have left at the last click, and to have read everything when there was
    none. So an item's attractiveness is (1 + clicks)/(2 + n) over the rows up to and including the last click, all rows
    of a list without one, and ``continuation`` at k is (1 + clicks at k with another one below)/(2 + clicks at k).
    With ``iterations`` of EM, those who read on and clicked nothing more are counted as well as can be known.
    ``observations`` has the clicks at each position; a position without any takes the mean of the others (0.5 if no
    position had one), ``unobserved`` counts these, and a warning says so.

    Examples
    --------
    >>> model = DCM().fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.observations
    array([2, 2])
    >>> model.continuation
    array([0.5 , 0.25])
    >>> model.attractiveness([1, 2, 3])
    array([0.8, 0.5, 0.5])
    """

    default_steps: ClassVar[int] = 0
    _table: ClassVar[str] = "continuation"

    continuation: Floats
    observations: Ints

    def _after_click(self, pair: Ints) -> Floats:
        return np.broadcast_to(self.continuation[: pair.shape[1]], pair.shape)

    def _begin(self, pairs: int, positions: int) -> None:
        self.continuation = np.full(positions, 0.5)

    def _browse(self, reading: Reading, pairs: int, *, prior_too: bool) -> None:
        self.observations = reading.clicked.sum(axis=0).astype(np.int64)
        asked = (reading.clicked * reading.told).sum(axis=0)
        continuation = LAPLACE.share((reading.clicked * reading.stayed).sum(axis=0), asked)
        every = np.ones((1, len(continuation)), dtype=np.bool_)
        [self.continuation], self.unobserved = filled(continuation[np.newaxis], self.observations[np.newaxis], every)
