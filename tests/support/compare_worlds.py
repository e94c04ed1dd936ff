"""Experiments on users with a known taste, many at once, as the moments that a comparison sees minute by minute."""

from dataclasses import fields
from math import comb

import numpy as np
from scipy.stats import beta

from learner.compare import RatioMoments

TASTES = np.array([0.05, 0.1, 0.2, 0.4])  # chance of a click at each of two positions; users differ a lot


def visitors(rng, *, experiments, minutes, per_minute, lift=0.0, lost=0.0):
    """Return lists and clicks of users who stay within their minute, and clicks and losses, minute by minute.

    Users are drawn as counts of each kind (lists, clicks, lost clicks), which is exact and serves any rate.
    """
    kinds, chances = kinds_of_users(lift=lift, lost=lost)
    arrived = rng.poisson(per_minute, (experiments, minutes))
    counts = np.cumsum(rng.multinomial(arrived, chances), axis=1).astype(np.float64)
    lists, clicks, gone = kinds.T.astype(np.float64)
    return moments_of(counts, lists, clicks - gone), moments_of(counts, clicks, gone)


def kinds_of_users(*, lift, lost):
    """Return what kinds of users there are, as (lists, clicks, lost clicks), and their chances."""
    kinds = {}
    for taste in TASTES * (1 + lift):
        for lists, share in ((1, 0.6), (2, 0.3), (3, 0.1)):
            for clicks in range(2 * lists + 1):
                for gone in range(clicks + 1):
                    chance = share / len(TASTES) * binomial(2 * lists, clicks, taste) * binomial(clicks, gone, lost)
                    kinds[lists, clicks, gone] = kinds.get((lists, clicks, gone), 0.0) + chance
    chances = np.array(list(kinds.values()))
    kept = chances > 0
    return np.array(list(kinds))[kept], chances[kept] / chances[kept].sum()


def binomial(n, k, p):
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def moments_of(counts, size, total):
    return RatioMoments(
        counts.sum(-1), counts @ size, counts @ total, counts @ size**2, counts @ (size * total), counts @ total**2
    )


def returning(rng, *, experiments, minutes, users, visits=0.05, lift=0.0):
    """Return the moments of ``users`` who come back again and again, with tastes that they keep."""
    taste = rng.choice(TASTES, (experiments, users)) * (1 + lift)
    seldom = rng.gamma(1.0, visits, (experiments, users))  # some come all the time
    size, total, looks = np.zeros((experiments, users)), np.zeros((experiments, users)), []
    for _ in range(minutes):
        came = rng.poisson(seldom)
        size += came
        total += rng.binomial(2 * came, taste)
        sums = [(size > 0), size, total, size**2, size * total, total**2]
        looks.append([one.sum(-1) for one in sums])
    return RatioMoments(*np.stack(looks, axis=-1).astype(np.float64))


def at(moments, where):
    """Return the moments of some experiments or minutes."""
    return RatioMoments(*(getattr(moments, field.name)[where] for field in fields(RatioMoments)))


def upper_bound(alarms, experiments, confidence=0.95):
    """Return the one-sided Clopper-Pearson bound of a chance of which so many were seen."""
    return beta.ppf(confidence, alarms + 1, experiments - alarms)
