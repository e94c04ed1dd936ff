"""The Beta prior of what is counted per pair of query and item: given, or learned from all pairs (empirical Bayes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln

from learner.arrays import Floats

STRENGTHS = (0.05, 1e4)  # rows that a learned prior may count for
MEANS = (1e-6, 1 - 1e-6)


@dataclass(frozen=True, slots=True)
class Beta:
    """A Beta distribution, as that many rows with and without a click."""

    clicked: float
    other: float

    @property
    def mean(self) -> float:
        """The chance of a pair of which nothing is known."""
        return self.clicked / (self.clicked + self.other)

    def share(self, clicked: Floats, rows: Floats) -> Floats:
        """Return the posterior mean (a + clicks)/(a + b + rows) of each pair.

        >>> LAPLACE.share(np.array([2.0, 0.0]), np.array([2.0, 1.0]))
        array([0.75      , 0.33333333])
        """
        return np.asarray((self.clicked + clicked) / (self.clicked + self.other + rows))

    @classmethod
    def learned(cls, clicked: Floats, rows: Floats) -> Beta:
        """Return the prior under which the pairs' counts are most likely: beta-binomial maximum likelihood.

        A pair that was shown once says little of itself, but thousands of them say what pairs are like. Counts may be
        expected ones, so they need not be whole.
        """
        met = rows > 0
        yes, no = clicked[met], np.maximum(rows[met] - clicked[met], 0.0)
        if not yes.any() or not no.any():
            return LAPLACE
        kinds, count = np.unique(np.round(np.column_stack([yes, no]), 3), axis=0, return_counts=True)
        yes, no = kinds.T
        mean = float(np.clip(yes @ count / ((yes + no) @ count), *MEANS))

        def cost(parameters: Floats) -> float:
            prior = cls._at(parameters)
            return -float(count @ (betaln(prior.clicked + yes, prior.other + no) - betaln(prior.clicked, prior.other)))

        begin = np.array([np.log(mean / (1 - mean)), np.log(4.0)])
        minimum = minimize(cost, begin, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3})
        return cls._at(minimum.x)

    @classmethod
    def _at(cls, parameters: Floats) -> Beta:
        mean = float(np.clip(1 / (1 + np.exp(-np.clip(parameters[0], -30, 30))), *MEANS))
        strength = float(np.clip(np.exp(np.clip(parameters[1], -30, 30)), *STRENGTHS))
        return cls(mean * strength, (1 - mean) * strength)


LAPLACE = Beta(1.0, 1.0)
Prior: TypeAlias = Beta | Literal["empirical"]
"""A prior, or how to get one: from the log itself."""
