"""DBN: the user reads from the top until an item satisfies or patience ends."""

from typing import ClassVar

import numpy as np

from learner.click_models.reading import Reading, per_pair
from learner.click_models.sdbn import SDBN


class DBN(SDBN):
    """The dynamic Bayesian network of Chapelle and Zhang (2009), by EM: SDBN with ``perseverance`` below 1.

    Who is not satisfied reads the next row with the chance ``perseverance``, after a click or without one.

    Examples
    --------
    >>> model = DBN(iterations=20).fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> 0.5 < model.perseverance < 1
    True
    """

    default_steps: ClassVar[int] = 50
    quick_steps: ClassVar[int] = 10
    perseverance: float

    @property
    def _after_none(self) -> float:
        return self.perseverance

    def _begin(self, pairs: int, positions: int) -> None:
        super()._begin(pairs, positions)
        self.perseverance = 0.9

    def _browse(self, reading: Reading, pairs: int, *, prior_too: bool) -> None:
        clicked = reading.clicked * reading.told
        satisfied = self._satisfied(reading.pair)
        left = 1 - (1 - satisfied) * self.perseverance  # after a click: satisfied, or out of patience
        sated = (clicked - reading.clicked * reading.stayed) * np.divide(
            satisfied, left, out=np.ones(left.shape), where=left > 0
        )
        unsated = reading.read * reading.told - sated
        self._satisfy(per_pair(reading.pair, sated, pairs), reading, pairs, prior_too)
        self.perseverance = float((1 + reading.stayed.sum()) / (2 + max(unsated.sum(), reading.stayed.sum())))
