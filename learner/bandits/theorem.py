"""The paper's theorem: the width of the confidence bound in a round, and the regret it promises."""

import math

import numpy as np

from learner.arrays import Floats


class TheoremWarning(UserWarning):
    """The theorem's assumptions do not hold for this model; it learns and ranks all the same."""


def weight_bound(examination: Floats) -> float:
    """Return φ′ = Σₖ w[k, k − 1]², what a round can add to A if w grows with k′.

    >>> weight_bound(np.array([[1.0, 0.0], [0.5, 0.5]]))
    1.25
    """
    return float(np.sum(np.diagonal(examination) ** 2))


def safe_weight_bound(examination: Floats) -> float:
    """Return Σₖ maxₖ′ w[k, k′]², what a round can add to A whatever the order of w."""
    return float(np.sum(examination.max(axis=1) ** 2))


def exploration(rounds: int, *, dim: int, positions: int, phi: float, ridge: float, beta: float) -> float:
    """Return α of round t: √(d ln(1 + φ′ t / (d λ)) + 2 ln(t K)) + √(λ β)."""
    information = dim * math.log1p(phi * rounds / (dim * ridge))
    return math.sqrt(information + 2 * math.log(rounds * positions)) + math.sqrt(ridge * beta)


def regret_bound(rounds: int, *, dim: int, positions: int, phi: float, ridge: float, beta: float) -> float:
    """Return the theorem's bound on the cumulative regret after T rounds: 2 α √(2 T K d ln(1 + φ′ T / (λ d))) + 1."""
    alpha = exploration(rounds, dim=dim, positions=positions, phi=phi, ridge=ridge, beta=beta)
    information = math.log1p(phi * rounds / (ridge * dim))
    return 2 * alpha * math.sqrt(2 * rounds * positions * dim * information) + 1
