"""Counts per bin of time: a window that moves with the newest time, or one that grows with all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Timeline:
    """Sums of several fields per bin and column (a bucket, a topic); what is older than the window is dropped.

    Parameters
    ----------
    grow
        Keep everything: when the times span more than the window, bins are joined in pairs.

    >>> clicks = Timeline(width_ms=1000, bins=3, fields=1)
    >>> clicks.add(np.array([500, 700, 2500]), np.array([0, 0, 1]), np.array([[1], [1], [5]]))
    >>> clicks.start, clicks.values[:, :, 0].tolist()
    (0, [[2.0, 0.0], [0.0, 0.0], [0.0, 5.0]])
    """

    def __init__(self, *, width_ms: int, bins: int, fields: int, grow: bool = False) -> None:
        self.width_ms, self.bins, self.grow = width_ms, bins, grow
        self.start = 0  # number of the oldest bin, counted in widths from 1970
        self.values: Floats = np.zeros((bins, 0, fields))
        self.empty = True

    def add(self, times_ms: Ints, columns: Ints, amounts: Ints | Floats) -> None:
        """Add ``amounts`` (n, fields) at ``times_ms`` (n) to ``columns`` (n)."""
        if not len(times_ms):
            return
        self.widen(int(columns.max()) + 1)
        first, last = int(times_ms.min()), int(times_ms.max())
        while self.grow and not self._fits(first, last):
            self._halve()
        self._move_to(first, last)
        bins = times_ms // self.width_ms - self.start
        kept = bins >= 0
        np.add.at(self.values, (bins[kept], columns[kept]), amounts[kept])

    def widen(self, columns: int) -> None:
        """Make room for ``columns`` columns."""
        missing = columns - self.values.shape[1]
        if missing > 0:
            self.values = np.pad(self.values, ((0, 0), (0, missing), (0, 0)))

    def _fits(self, first_ms: int, last_ms: int) -> bool:
        first, last = first_ms // self.width_ms, last_ms // self.width_ms
        if not self.empty:
            used = np.flatnonzero(self.values.any(axis=(1, 2))) + self.start
            if len(used):
                first, last = min(first, int(used[0])), max(last, int(used[-1]))
        return last - first < self.bins

    def _halve(self) -> None:
        bins = (self.start + np.arange(self.bins)) // 2
        joined = np.zeros_like(self.values)
        np.add.at(joined, bins - bins[0], self.values)
        self.width_ms, self.start, self.values = self.width_ms * 2, int(bins[0]), joined

    def _move_to(self, first_ms: int, last_ms: int) -> None:
        """Let the window end at the newest bin; a growing one may also have to begin earlier."""
        first, last = first_ms // self.width_ms, last_ms // self.width_ms
        if self.empty:
            self.start, self.empty = last - self.bins + 1, False
            return
        shift = max(0, last - (self.start + self.bins - 1))
        if self.grow and first < self.start:
            shift = first - self.start
        if shift:
            moved = np.zeros_like(self.values)
            if 0 < shift < self.bins:
                moved[:-shift] = self.values[shift:]
            elif -self.bins < shift < 0:
                moved[-shift:] = self.values[:shift]
            self.start, self.values = self.start + shift, moved
