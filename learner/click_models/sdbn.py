"""SDBN: the user reads from the top until an item that was clicked satisfies."""

from typing import ClassVar

import numpy as np

from learner.arrays import Floats, Ints
from learner.click_models.log import Column
from learner.click_models.prior import Beta
from learner.click_models.reading import Reading, ReadingModel, per_pair


class SDBN(ReadingModel):
    """The simplified dynamic Bayesian network of Chapelle and Zhang (2009), by counting or by EM.

    An item attracts and, once clicked, satisfies; who is not satisfied reads on. Counting takes every last click as one
    that satisfied; with ``iterations`` of EM, those who read on and clicked nothing more are counted too.

    Examples
    --------
    >>> model = SDBN().fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.attractiveness([1, 2, 3])
    array([0.8, 0.5, 0.5])
    >>> model.satisfaction([1, 2, 3])
    array([0.6       , 0.66666667, 0.5       ])
    """

    default_steps: ClassVar[int] = 0

    def satisfaction(self, items: Column, queries: Column | None = None) -> Floats:
        """Return the chance that a clicked item satisfies, the prior's mean for a pair that was never clicked."""
        return self._satisfied(self._pairs_of(items, queries))

    def _satisfied(self, pair: Ints) -> Floats:
        return np.append(self._satisfaction, self._satisfied_prior.mean)[pair]

    def _after_click(self, pair: Ints) -> Floats:
        return (1 - self._satisfied(pair)) * self._after_none

    def _begin(self, pairs: int, positions: int) -> None:
        self._satisfied_prior = self._prior
        self._satisfaction = np.full(pairs, self._satisfied_prior.mean)

    def _browse(self, reading: Reading, pairs: int, *, prior_too: bool) -> None:
        asked = reading.clicked * reading.told
        self._satisfy(
            per_pair(reading.pair, asked - reading.clicked * reading.stayed, pairs), reading, pairs, prior_too
        )

    def _satisfy(self, satisfied: Floats, reading: Reading, pairs: int, prior_too: bool) -> None:
        clicked = per_pair(reading.pair, reading.clicked * reading.told, pairs)
        satisfied = np.clip(satisfied, 0.0, clicked)
        if prior_too:
            self._satisfied_prior = Beta.learned(satisfied, clicked)
        self._satisfaction = self._satisfied_prior.share(satisfied, clicked)
