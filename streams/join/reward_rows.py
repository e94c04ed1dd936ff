"""Rewards of the lists of one bucket that somebody has clicked; most lists nobody has, and they have none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NO_CLICK = -1.0
_STEP = 4_096  # rows added at most at once
Rows = NDArray[np.int32]


class RewardRows:
    """A row of rewards for each clicked list, NO_CLICK where nobody clicked; row 0 is that of all other lists.

    >>> rewards = RewardRows(positions=2)
    >>> [row] = rewards.reserve(1)
    >>> rewards.largest(np.array([row, row]), np.array([2, 2]), np.array([0.5, 0.2]))
    >>> rewards.of(np.array([0, row])).tolist()
    [[-1.0, -1.0], [-1.0, 0.5]]
    """

    def __init__(self, *, positions: int) -> None:
        self._rewards = np.full((1, positions), NO_CLICK)
        self._free = np.empty(0, np.int32)

    def of(self, rows: Rows) -> NDArray[np.float64]:
        """Return the rewards in rows."""
        return self._rewards[rows]

    def at(self, rows: Rows, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the reward of a position in each row."""
        return self._rewards[rows, positions - 1]

    def largest(self, rows: Rows, positions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Let positions have these rewards, or the larger ones that they have."""
        np.maximum.at(self._rewards, (rows, positions - 1), rewards)

    def reserve(self, count: int) -> Rows:
        """Return rows for so many lists that have got their first click."""
        if count > len(self._free):
            old, more = len(self._rewards), max(count - len(self._free), min(_STEP, len(self._rewards)))
            self._rewards.resize((old + more, self._rewards.shape[1]), refcheck=False)
            self._rewards[old:] = NO_CLICK
            self._free = np.concatenate((self._free, np.arange(old, old + more, dtype=np.int32)))
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def release(self, rows: Rows) -> None:
        """Take back rows, those of lists without a click among them."""
        clicked = rows[rows > 0]
        if len(clicked):
            self._rewards[clicked] = NO_CLICK
            self._free = np.concatenate((clicked, self._free))

    def compact(self, rows: Rows) -> Rows:
        """Keep no rows but these, give the memory of others back, and return where each is now."""
        self._rewards = np.concatenate((self._rewards[:1], self._rewards[rows]))
        self._free = np.empty(0, np.int32)
        return np.arange(1, len(rows) + 1, dtype=np.int32)
