"""Forgotten lists, and where a restart must begin so that the clicks which they took find them again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_CHUNKS = 64


class RestartPoints:
    """Lists that a restart needs only to understand clicks: one that a list took must not look like one without."""

    def __init__(self) -> None:
        self._forgotten: list[Ints] = []  # two rows: offset of the last click, offset of the list

    def forget(self, last_click: Ints, offset: Ints) -> None:
        """Note forgotten lists, and the highest offset of a click that each decided (-1 for none)."""
        clicked = last_click >= 0
        if clicked.any():
            self._forgotten.append(np.stack((last_click[clicked], offset[clicked])))

    def first_list(self, remembered: int, first_click: int) -> int:
        """Return the first list that is needed, if those from ``remembered`` are, and clicks from ``first_click``."""
        if len(self._forgotten) > _CHUNKS:
            self._forgotten = [np.concatenate(self._forgotten, axis=1)]
        kept = [chunk if (live := chunk[0] >= first_click).all() else chunk[:, live] for chunk in self._forgotten]
        self._forgotten = [chunk for chunk in kept if chunk.shape[1]]
        return min(remembered, *(int(chunk[1].min()) for chunk in self._forgotten), remembered)
