"""Counts per bin of time, in windows that move with the newest time or grow with all; and records a second by topic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streams.dashboard.source import LogUpdate
from streams.settings import TOPICS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WINDOWS = {"5m": 2_500, "30m": 15_000, "2h": 60_000, "24h": 720_000}  # bin width in ms
BINS = 120
FUTURE_MS = 600_000
PARTS = 48  # of the time between two known offsets, so that bins of any width get their share
STREAMS = (*TOPICS, "lists")  # lists: joined, as the samples say


class Timeline:
    """Sums of several fields per bin and column (a bucket, a topic); what is older than the window is dropped.

    With ``grow`` everything is kept: when the times span more than the window, bins are joined in pairs.

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
        self._move_to(first // self.width_ms, last // self.width_ms)
        bins = times_ms // self.width_ms - self.start
        kept = bins >= 0
        np.add.at(self.values, (bins[kept], columns[kept]), amounts[kept])

    def widen(self, columns: int) -> None:
        """Make room for ``columns`` columns."""
        missing = columns - self.values.shape[1]
        if missing > 0:
            self.values = np.pad(self.values, ((0, 0), (0, missing), (0, 0)))

    def _fits(self, first_ms: int, last_ms: int) -> bool:
        used = (np.flatnonzero(self.values.any(axis=(1, 2))) + self.start).tolist()
        bins = [first_ms // self.width_ms, last_ms // self.width_ms, *used]
        return max(bins) - min(bins) < self.bins

    def _halve(self) -> None:
        bins = (self.start + np.arange(self.bins)) // 2
        joined = np.zeros_like(self.values)
        np.add.at(joined, bins - bins[0], self.values)
        self.width_ms, self.start, self.values = self.width_ms * 2, int(bins[0]), joined

    def _move_to(self, first: int, last: int) -> None:
        """Let the window end at the newest bin; a growing one may also have to begin earlier."""
        if self.empty:
            self.start, self.empty = last - self.bins + 1, False
            return
        shift = max(0, last - (self.start + self.bins - 1))
        if self.grow and first < self.start:
            shift = first - self.start
        if shift:
            before, moved = np.arange(self.bins) + shift, np.zeros_like(self.values)
            inside = (before >= 0) & (before < self.bins)
            moved[inside] = self.values[before[inside]]
            self.start, self.values = self.start + shift, moved


def timelines(fields: int) -> dict[str, Timeline]:
    """Return one empty timeline per window that the page offers, and one for all of the log."""
    windows = {name: Timeline(width_ms=width_ms, bins=BINS, fields=fields) for name, width_ms in WINDOWS.items()}
    return windows | {"all": Timeline(width_ms=1000, bins=BINS, fields=fields, grow=True)}


class Throughput:
    """Counts how far each topic has grown between updates; a topic that was made again begins anew."""

    def __init__(self) -> None:
        self.timelines = timelines(fields=1)
        self.rates: dict[str, float] = {}
        self._before: LogUpdate | None = None
        for timeline in self.timelines.values():
            timeline.widen(len(STREAMS))

    def add(self, update: LogUpdate, *, lists: Sequence[tuple[int, float]]) -> None:
        """Note an update, and when how many ``lists`` of it were joined."""
        before, self._before = self._before, update
        self._remember(update)
        for topic in update.counted:  # offsets also number the markers of transactions
            stamps = [entry.record.timestamp for entry in update.entries.get(topic, ())]
            self._note(topic, stamps, np.ones(len(stamps)), update.at_ms)
        self._note("lists", [at for at, _ in lists], np.array([count for _, count in lists]), update.at_ms)
        if before is None or update.at_ms <= before.at_ms:
            return
        grown: dict[str, float] = {}
        for topic in TOPICS:
            if topic in update.counted:
                grown[topic] = len(update.entries.get(topic, ())) + update.skipped.get(topic, 0)
            else:
                grown[topic] = grown_by(before.ends.get(topic, {}), update.ends.get(topic, {}))
                self._note(topic, [update.at_ms], np.array([grown[topic]]), update.at_ms)
        grown["lists"] = sum(count for _, count in lists)
        if before.behind:  # history is no throughput
            grown |= dict.fromkeys((*update.counted, "lists"), 0)
        seconds = (update.at_ms - before.at_ms) / 1000
        smooth = np.exp(-seconds / 10)  # over about 10 s, so that a figure can be read
        for name in STREAMS:
            new = grown[name] / seconds
            self.rates[name] = new + smooth * (self.rates[name] - new) if name in self.rates else new

    def _note(self, name: str, times_ms: Sequence[int], amounts: NDArray[np.float64], now_ms: int) -> None:
        times = np.array(times_ms, np.int64)
        known = (times > 0) & (times <= now_ms + FUTURE_MS)
        columns = np.full(int(known.sum()), STREAMS.index(name))
        for timeline in self.timelines.values():
            timeline.add(times[known], columns, amounts[known, None])

    def _remember(self, update: LogUpdate) -> None:
        """Spread what was added between two times of the past evenly over the time between them."""
        parts = np.arange(PARTS) / PARTS
        for (start, before), (end, after) in pairwise(update.past):
            times = (start + parts * (end - start)).astype(np.int64)
            for topic in [topic for topic in TOPICS if topic not in update.counted]:
                more = max(0, after.get(topic, 0) - before.get(topic, 0))
                shares = np.diff((np.arange(PARTS + 1) * more) // PARTS)
                for timeline in self.timelines.values():
                    timeline.add(times, np.full(PARTS, STREAMS.index(topic)), shares[:, None])


def grown_by(before: dict[int, int], after: dict[int, int]) -> int:
    """Return how many offsets were added to the partitions that were known before.

    >>> grown_by({0: 5, 1: 7}, {0: 8, 1: 2, 2: 9})
    3
    """
    return sum(max(0, end - before[number]) for number, end in after.items() if number in before)
