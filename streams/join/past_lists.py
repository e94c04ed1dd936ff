"""What is kept of lists that are not in memory: ids that they hold, ids that were forgotten, where a restart begins."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from streams.join.commit import NEVER

CELLS = 16
_CHUNKS = 64

Ints = NDArray[np.int64]


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
        self._cells: dict[int, list[Ints]] = {}  # one sorted array, but for the newest of them

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
        wanted, known = _hashes(ids), np.zeros(len(ids), np.bool_)
        for parts in self._cells.values():
            known |= np.isin(wanted, parts[0] if len(parts) == 1 else np.concatenate(parts))
        return known


def _hashes(ids: Sequence[str]) -> Ints:
    return np.fromiter(map(hash, ids), np.int64, len(ids))


class HeldIds:
    """Ids that are held until the floor of the impressions log has passed a time.

    They are those of refused impressions, and of the ones before the lists of a restart.

    >>> held = HeldIds()
    >>> held.hold("i", 5)
    >>> held.until("i"), held.until("j") == NEVER
    (5, True)
    >>> held.release(6)
    >>> len(held)
    0
    """

    def __init__(self) -> None:
        self._until: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []  # a heap, with some entries that a later one has outlived
        self._most = 0  # since the memory was last given back

    def __len__(self) -> int:
        return len(self._until)

    def hold(self, name: str, until: int) -> None:
        """Hold an id until then, or longer if it is held longer already."""
        if until > self._until.get(name, NEVER):
            self._until[name] = until
            heappush(self._order, (until, name))
            self._most = max(self._most, len(self._until))

    def until(self, name: str) -> int:
        """Return how long an id is held."""
        return self._until.get(name, NEVER)

    def release(self, floor: int) -> None:
        """Let go of the ids that are held until before ``floor``."""
        while self._order and self._order[0][0] < floor:
            until, name = heappop(self._order)
            if self._until.get(name) == until:
                del self._until[name]
        if len(self._until) < self._most // 4:
            self._until, self._most = dict(self._until), len(self._until)


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
