"""Lift over a control with an anytime-valid confidence sequence, right at every look; and how long it may still take.

The estimate of ln(rate / control's rate) is, at the time 1 / variance, a Brownian motion with drift (users arrive
independently), and Robbins' normal mixture bounds that for all times at once: asymptotic confidence sequences
(Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2021). Users who come back make what follows more alike to what was,
which such a bound only finds easier.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from learner.compare.moments import Floats, RatioMoments

SCALE = 0.05  # lifts of this size are found soonest, others a little later; all are found at the same error
MOST = 1000.0  # times the information so far; beyond that nothing is foretold
CHANCE = 0.8  # of a decision by the forecast time
LEAST = 30  # users and successes that each side has before anything is said: below, no variance can be believed


@dataclass(frozen=True, slots=True)
class Lift:
    """Relative lifts over time with their bounds; NaN and (−1, ∞) where nothing can be said yet."""

    estimate: Floats
    low: Floats
    high: Floats
    variance: Floats  # of ln(1 + estimate)

    @property
    def decided(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where the bounds exclude 0."""
        return (self.low > 0) | (self.high < 0)


def lift_over_control(treated: RatioMoments, control: RatioMoments, *, alpha: float) -> Lift:
    """Return the lift of a bucket's rate over the control's, wrong at any time with a chance of at most ``alpha``."""
    known = (np.minimum(treated.users, control.users) >= LEAST) & (np.minimum(treated.total, control.total) >= LEAST)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log(treated.rate / control.rate)
        variance = treated.variance / treated.rate**2 + control.variance / control.rate**2
    known &= variance > 0
    logarithm, variance = np.where(known, logarithm, np.nan), np.where(known, variance, np.inf)
    wide = half_width(np.where(known, variance, 1.0), alpha=alpha)
    low = np.where(known, np.expm1(logarithm - wide), -1.0)
    high = np.where(known, np.expm1(np.minimum(logarithm + wide, 700.0)), np.inf)  # e⁷⁰⁰ is as good as no bound
    return Lift(np.expm1(logarithm), low, high, variance)


def half_width(variance: Floats, *, alpha: float, scale: float = SCALE) -> Floats:
    """Return half the width of the interval around an estimate of that variance, valid at all times together.

    >>> half_width(np.array([1e-4]), alpha=0.05).round(4)  # a single look would allow 0.0196
    array([0.031])
    """
    width: Floats = np.sqrt((variance + variance**2 / scale**2) * (np.log1p(scale**2 / variance) - 2 * np.log(alpha)))
    return width


def further_information(logarithm: float, variance: float, *, alpha: float) -> float:
    """Return how many times the information so far is needed until a decision, or ∞ if that cannot be foretold.

    What is known of the lift is its estimate, drawn towards 0 as lifts of about ``SCALE`` are what one meets; from it
    the estimate at each later time is foretold, and the first one is taken at which it is decided with a chance of 0.8.

    >>> round(further_information(0.03, 0.01**2, alpha=0.05), 1)
    1.7
    >>> further_information(0.0, 0.01**2, alpha=0.05) > 100
    True
    """
    if not (np.isfinite(logarithm) and 0 < variance < np.inf):
        return np.inf
    more = np.geomspace(1.0, MOST, 2000)
    believed = 1 / (1 / variance + 1 / SCALE**2)
    drift = logarithm * believed / variance
    later = variance / more
    # the estimate at a later time is a mean of the present one and of what is still to come
    centre = (logarithm + drift * (more - 1)) / more
    error = np.sqrt(((more - 1) / more) ** 2 * believed + (more - 1) / more * later)
    bound = half_width(later, alpha=alpha)
    with np.errstate(divide="ignore"):
        decided = ndtr((centre - bound) / error) + ndtr((-centre - bound) / error)
    enough = np.flatnonzero(decided >= CHANCE)
    return float(more[enough[0]]) if len(enough) else np.inf
