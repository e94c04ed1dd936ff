"""UBM with a table that is given: only the attractiveness of items is learned."""

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints
from learner.browsing import checked_table, previous_click
from learner.click_models.log import ClickLog
from learner.click_models.ubm import UBM


class GivenTable(UBM):
    """Judges an examination table (K×K, w[k − 1, k′]) that is in force: EM of each item's attractiveness with w held.

    Examples
    --------
    >>> model = GivenTable([[1.0, 0.0], [0.5, 1.0]]).fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.attractiveness([1, 2]).round(2)
    array([0.8, 0.4])
    """

    def __init__(self, examination: ArrayLike, iterations: int = 20) -> None:
        super().__init__(iterations)
        self.given = checked_table(examination)

    def _learn(self, log: ClickLog, pair: Ints, pairs: int) -> Floats:
        if log.positions > len(self.given):
            raise ValueError(f"lists have {log.positions} positions, the table only {len(self.given)}")
        self.examination = self.given[: log.positions, : log.positions]
        self.unobserved = 0
        seen = self.examination[np.arange(log.positions), previous_click(log.clicks)][log.shown]
        clicked = log.clicks[log.shown]
        shown = np.bincount(pair, minlength=pairs).astype(np.float64)
        clicks = np.bincount(pair, clicked, pairs)
        passed, missed = pair[~clicked], seen[~clicked]
        attractiveness = np.full(pairs, 0.5)
        for _ in range(self.iterations):
            guess = attractiveness[passed]
            liked = guess * (1 - missed) / np.maximum(1 - guess * missed, 1e-12)  # liked, and not looked at
            attractiveness = (1 + clicks + np.bincount(passed, liked, pairs)) / (2 + shown)
        return np.asarray(attractiveness)
