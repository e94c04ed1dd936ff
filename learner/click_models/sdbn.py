"""SDBN: the user reads from the top until an item that was clicked satisfies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from learner.click_models.ids import checked_ids
from learner.click_models.log import Column
from learner.click_models.prior import LAPLACE, Beta, Prior
from learner.click_models.reading import Codes, Floats, Reading, ReadingModel, per_pair


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

    def __init__(self, iterations: int = 0, *, prior: Prior = LAPLACE) -> None:
        super().__init__(iterations, prior=prior)

    def satisfaction(self, items: Column, queries: Column | None = None) -> NDArray[np.float64]:
        """Return the chance that a clicked item satisfies, the prior's mean for a pair that was never clicked."""
        pairs = self._fitted()
        query_ids = None if queries is None else checked_ids("queries", queries)
        codes = pairs.of(checked_ids("items", items), query_ids, np.ones(len(items), dtype=np.int64))
        return self._satisfied(codes)

    def _satisfied(self, pair: Codes) -> Floats:
        return np.append(self._satisfaction, self._satisfied_prior.mean)[pair]

    def _after_click(self, pair: Codes) -> Floats:
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
