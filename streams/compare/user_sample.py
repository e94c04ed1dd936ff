"""A hash sample of users, so that memory has a bound: whoever is in it stays in it with all their lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MIX = np.uint64(0x9E3779B97F4A7C15)  # numbers of lists that stand for users follow one another; hashes do not


class UserSample:
    """One of every 2^halvings users, drawn by hash alone, so that it is as good as drawn by chance.

    >>> some = UserSample()
    >>> users = np.arange(1000, dtype=np.uint64)
    >>> int(some.has(users).sum())
    1000
    >>> some.halvings = 2
    >>> 200 < int(some.has(users).sum()) < 300
    True
    """

    def __init__(self) -> None:
        self.halvings = 0

    def has(self, users: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which users are in the sample."""
        if not self.halvings:
            return np.ones(len(users), bool)
        mixed = users * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX
        return np.asarray(mixed >> np.uint64(64 - self.halvings) == 0)
