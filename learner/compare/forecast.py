"""How much longer until a lift is decided."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from learner.compare.lift import SCALE, half_width

MOST = 1000.0  # times the information so far; beyond that nothing is foretold


def further_information(
    logarithm: float, variance: float, *, alpha: float, chance: float = 0.8, scale: float = SCALE
) -> float:
    """Return how many times the information so far is needed until a decision, or ∞ if that cannot be foretold.

    What is known of the lift is its estimate, drawn towards 0 as lifts of about ``scale`` are what one meets; from it
    the estimate at each later time is foretold, and the first one is taken at which it is decided with ``chance``.

    >>> round(further_information(0.03, 0.01**2, alpha=0.05), 1)
    1.7
    >>> further_information(0.0, 0.01**2, alpha=0.05) > 100
    True
    """
    if not (np.isfinite(logarithm) and 0 < variance < np.inf):
        return np.inf
    more = np.geomspace(1.0, MOST, 2000)
    believed = 1 / (1 / variance + 1 / scale**2)
    drift = logarithm * believed / variance
    later = variance / more
    # the estimate at a later time is a mean of the present one and of what is still to come
    centre = (logarithm + drift * (more - 1)) / more
    error = np.sqrt(((more - 1) / more) ** 2 * believed + (more - 1) / more * later)
    bound = half_width(later, alpha=alpha, scale=scale)
    with np.errstate(divide="ignore"):
        decided = ndtr((centre - bound) / error) + ndtr((-centre - bound) / error)
    enough = np.flatnonzero(decided >= chance)
    return float(more[enough[0]]) if len(enough) else np.inf
