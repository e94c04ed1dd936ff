"""A timer wheel: slots by the time at which they are due."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int32]
TimesOf = Callable[[Slots], NDArray[np.int64]]


class TimerWheel:
    """Slots in cells of time: adding and taking cost per batch and cell, not per slot.

    >>> shown_at = np.array([5_000, 1_000, 3_000])
    >>> due = TimerWheel(cell_ms=1_000)
    >>> due.add(np.array([0, 1, 2], np.int32), shown_at)
    >>> due.pop_before(3_500, lambda slots: shown_at[slots])
    array([1, 2], dtype=int32)
    """

    def __init__(self, *, cell_ms: int) -> None:
        self._cell_ms = max(1, cell_ms)
        self._cells: dict[int, list[Slots]] = {}
        self._order: list[int] = []  # a heap of the cells' numbers

    def add(self, slots: Slots, times: NDArray[np.int64]) -> None:
        """Add ``slots``, due at ``times``."""
        if not len(slots):
            return
        cells = times // self._cell_ms
        if cells[0] == cells[-1] and (cells == cells[0]).all():
            self._put(int(cells[0]), slots)
            return
        order = np.argsort(cells, kind="stable")
        cells, slots = cells[order], slots[order]
        starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(cells)], strict=True):
            self._put(int(cells[start]), slots[start:stop])

    def _put(self, cell: int, slots: Slots) -> None:
        if cell not in self._cells:
            self._cells[cell] = []
            heappush(self._order, cell)
        self._cells[cell].append(slots)

    def rename(self, moved: Slots) -> None:
        """Let every slot be the one that ``moved`` has at its place."""
        self._cells = {cell: [moved[slots] for slots in parts] for cell, parts in self._cells.items()}

    def before(self, limit: int, times: TimesOf) -> Slots:
        """Return the slots that ``pop_before`` would, and let them stay."""
        last = limit // self._cell_ms
        found = [slots for cell in self._order if cell <= last for slots in self._cells[cell]]
        slots = np.concatenate(found) if found else np.empty(0, np.int32)
        return slots[times(slots) < limit]

    def pop_before(self, limit: int, times: TimesOf) -> Slots:
        """Remove and return the slots whose time is below ``limit``."""
        gone: list[Slots] = []
        last = limit // self._cell_ms
        while self._order and self._order[0] < last:
            gone.extend(self._cells.pop(heappop(self._order)))
        if self._order and self._order[0] == last:
            slots = np.concatenate(self._cells[last])
            passed = times(slots) < limit
            gone.append(slots[passed])
            self._cells[last] = [slots[~passed]]
        return np.concatenate(gone) if gone else np.empty(0, np.int32)
