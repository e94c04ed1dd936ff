"""Ids of forgotten lists, so that a click on one of them is known to be late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CELLS = 16


class Forgotten:
    """Tells a click on a list past its horizon from one whose list was never seen; it changes figures, never the net.

    Ids are kept as 8 bytes each, by the time that their lists were shown, and let go ``keep_ms`` after it.

    >>> forgotten = Forgotten(keep_ms=1_000)
    >>> forgotten.add(["i", "j"], shown_at=5_000)
    >>> forgotten.knows(["j", "k"])
    array([ True, False])
    """

    def __init__(self, *, keep_ms: int) -> None:
        self._cell_ms = max(1, keep_ms // CELLS)
        self._cells: dict[int, list[NDArray[np.int64]]] = {}  # one sorted array, but for the newest of them

    def add(self, ids: Sequence[str], shown_at: int) -> None:
        """Remember ids of lists shown until ``shown_at``."""
        cell = shown_at // self._cell_ms
        if cell not in self._cells:
            for number, parts in self._cells.items():
                self._cells[number] = [np.sort(np.concatenate(parts))]
            for number in [number for number in self._cells if number < cell - CELLS]:
                del self._cells[number]
            self._cells[cell] = []
        self._cells[cell].append(_hashes(ids))

    def knows(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each id whether a list of it was forgotten not too long ago."""
        wanted, found = _hashes(ids), np.zeros(len(ids), np.bool_)
        for parts in self._cells.values():
            found |= np.isin(wanted, parts[0] if len(parts) == 1 else np.concatenate(parts))
        return found


def _hashes(ids: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids), np.int64, len(ids))
