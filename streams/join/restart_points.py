"""Where a restart must begin so that it judges everything as before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_CHUNKS = 64


class RestartPoints:
    """Lists that a restart needs only to understand later events.

    A click that a list took must find that list again, or it would look like one whose list has not come yet; and an
    impression that was refused because its id was taken must find the id taken again.
    """

    def __init__(self) -> None:
        self._forgotten: list[Ints] = []  # two rows: offset of the last click, offset of the list
        self._refused: list[tuple[int, int]] = []  # offsets of an impression and of the list that has its id

    def forget(self, last_click: Ints, offset: Ints) -> None:
        """Note forgotten lists, and the highest offset of a click that each decided (-1 for none)."""
        clicked = last_click >= 0
        if clicked.any():
            self._forgotten.append(np.stack((last_click[clicked], offset[clicked])))

    def refuse(self, offset: int, because_of: int) -> None:
        """Note that the impression at ``offset`` was refused because of the list at ``because_of``."""
        self._refused.append((offset, because_of))

    def first_list(self, remembered: int, first_click: int, place: Callable[[int], int]) -> int:
        """Return the offset to reread from, when lists from ``remembered`` and clicks from ``first_click`` count.

        ``place`` gives, for an offset, the nearest one at or before it from which reading may start.
        """
        if len(self._forgotten) > _CHUNKS:
            self._forgotten = [np.concatenate(self._forgotten, axis=1)]
        kept = [chunk if (live := chunk[0] >= first_click).all() else chunk[:, live] for chunk in self._forgotten]
        self._forgotten = [chunk for chunk in kept if chunk.shape[1]]
        first = place(min((int(chunk[1].min()) for chunk in self._forgotten), default=remembered))
        first = min(first, place(remembered))
        while True:
            needed = min((list_ for refused, list_ in self._refused if refused >= first), default=first)
            if needed >= first:
                break
            first = place(needed)
        self._refused = [partition_join for partition_join in self._refused if partition_join[0] >= first]
        return first
