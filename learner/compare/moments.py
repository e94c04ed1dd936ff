"""Sums over users that a ratio and its variance are made of, as they stood at the end of each bin of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RatioMoments:
    """Sums over users of a ratio's two parts, in arrays of one shape: over time, over experiments.

    A user's lists are not independent, users are; so the variance of Σ total / Σ size is that of a ratio of sums over
    users (the delta method), whatever a user does between the first and the last list.
    """

    users: Floats
    size: Floats  # Σ n: lists, or clicks
    total: Floats  # Σ s: what they earned, or lost
    size_size: Floats  # Σ n²
    size_total: Floats  # Σ n s
    total_total: Floats  # Σ s²

    @property
    def rate(self) -> Floats:
        """Σ s / Σ n; 0 where there is nothing yet."""
        return np.asarray(self.total / np.where(self.size > 0, self.size, 1.0))

    @property
    def spread(self) -> Floats:
        """Σ (s − rate · n)² over users."""
        squares = self.total_total - 2 * self.rate * self.size_total + self.rate**2 * self.size_size
        return np.asarray(np.maximum(squares, 0.0))  # what rounding leaves below 0

    @property
    def variance(self) -> Floats:
        """The variance of the rate; infinite where there is nothing yet."""
        known = self.size > 0
        return np.asarray(np.where(known, self.spread / np.where(known, self.size, 1.0) ** 2, np.inf))

    @classmethod
    def added(cls, parts: Iterable[RatioMoments]) -> RatioMoments:
        """Return the moments of several buckets together; nobody is in two of them."""
        buckets = list(parts)
        return cls(*(np.sum([getattr(bucket, field.name) for bucket in buckets], axis=0) for field in fields(cls)))


def moments_over_time(user: NDArray[np.integer], time_bin: Ints, size: Ints, total: Ints, *, bins: int) -> RatioMoments:
    """Return the moments at the end of each of ``bins``, from what each user added in each bin.

    A pair of user and bin has one row at most; rows come in any order.

    >>> found = moments_over_time(np.array([7, 8, 7]), np.array([0, 0, 1]), *np.array([[1, 1, 2], [1, 0, 1]]), bins=2)
    >>> found.total_total, found.size_size, found.users
    (array([1., 4.]), array([ 2., 10.]), array([2., 2.]))
    """
    order = np.lexsort((time_bin, user))
    who, when = user[order], time_bin[order]
    n, s = size[order].astype(np.float64), total[order].astype(np.float64)
    first = np.ones(len(who), dtype=bool)
    first[1:] = who[1:] != who[:-1]
    n_before, s_before = _before(n, first), _before(s, first)

    def over_time(step: Floats) -> Floats:
        return np.cumsum(np.bincount(when, step, bins).astype(np.float64, copy=False))

    return RatioMoments(
        users=over_time(first.astype(np.float64)),
        size=over_time(n),
        total=over_time(s),
        size_size=over_time(n * (n + 2 * n_before)),  # (a + n)² − a²
        size_total=over_time(n * s + n * s_before + s * n_before),
        total_total=over_time(s * (s + 2 * s_before)),
    )


def _before(values: Floats, first: NDArray[np.bool_]) -> Floats:
    """Return what the same user had added before each row."""
    before = np.cumsum(values) - values
    if not len(values):
        return before
    starts = np.flatnonzero(first)
    return before - np.repeat(before[starts], np.diff(np.append(starts, len(values))))
