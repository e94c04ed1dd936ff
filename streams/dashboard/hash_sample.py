"""A fair share of ids or rows that fits in memory, chosen by hash (pure)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Thinning:
    """Takes all, or every second, fourth, … one while there are too many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._mask = 0

    @property
    def share(self) -> float:
        """The share that is taken."""
        return 1 / (self._mask + 1)


class HashSample(Thinning):
    """Which ids are followed: all of them, and by their hash every second, fourth, … one while there are too many.

    An id is followed or not wherever it is met, so that slow things stay as likely to be seen as fast ones.
    """

    def follows(self, name: str) -> bool:
        """Return whether an id is among them."""
        return not hash(name) & self._mask

    def fit(self, *maps: dict[str, Any]) -> None:
        """Drop ids from ``maps`` until each has its place; with room for twice as many, follow more from now on."""
        while any(len(names) > self.most for names in maps):
            self._mask = self._mask * 2 + 1
            for names in maps:
                for name in [name for name in names if hash(name) & self._mask]:
                    del names[name]
        if all(len(names) < self.most // 4 for names in maps):
            self._mask >>= 1


class Rows(Thinning):
    """Rows of whole numbers; when there are too many, every second, fourth, … one of all that ever came.

    >>> rows = Rows(2, most=4)
    >>> for number in range(6):
    ...     rows.add(number, 10 * number)
    >>> rows.array().tolist(), rows.share
    ([[0, 0], [2, 20], [4, 40]], 0.5)
    """

    def __init__(self, width: int, most: int) -> None:
        super().__init__(most)
        self._kept = np.empty((0, width + 1), np.int64)  # the first column numbers them
        self._new: list[tuple[int, ...]] = []
        self._seen = 0

    def add(self, *row: int) -> None:
        """Note a row."""
        if not self._seen & self._mask:
            self._new.append((self._seen, *row))
            if len(self._new) >= self.most:
                self._fold()
        self._seen += 1

    def array(self) -> NDArray[np.int64]:
        """Return the rows that are kept, in the order in which they came."""
        self._fold()
        return self._kept[:, 1:]

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep only some of ``array()``; with room for twice as many, keep more from now on."""
        self._kept = self._kept[which]
        if len(self._kept) < self.most // 4:
            self._mask >>= 1

    def _fold(self) -> None:
        if self._new:
            self._kept = np.concatenate((self._kept, np.array(self._new, np.int64)))
            self._new = []
        while len(self._kept) > self.most:
            self._mask = self._mask * 2 + 1
            self._kept = self._kept[self._kept[:, 0] & self._mask == 0]
