"""Records a second, topic by topic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streams.dashboard.rates import FUTURE_MS, timelines
from streams.dashboard.source import LogUpdate
from streams.settings import TOPICS

PARTS = 48  # of the time between two known offsets, so that bins of any width get their share
STREAMS = (*TOPICS, "lists")  # lists: joined, as the samples say


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
        self._note("lists", [at for at, _ in lists], np.array([many for _, many in lists]), update.at_ms)
        if before is None or update.at_ms <= before.at_ms:
            return
        grown: dict[str, float] = {}
        for topic in TOPICS:
            if topic in update.counted:
                grown[topic] = len(update.entries.get(topic, ())) + update.skipped.get(topic, 0)
            else:
                grown[topic] = grown_by(before.ends.get(topic, {}), update.ends.get(topic, {}))
                self._note(topic, [update.at_ms], np.array([grown[topic]]), update.at_ms)
        grown["lists"] = sum(many for _, many in lists)
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
            for column, topic in enumerate(TOPICS):
                if topic in update.counted:
                    continue
                more = max(0, after.get(topic, 0) - before.get(topic, 0))
                shares = np.diff((np.arange(PARTS + 1) * more) // PARTS)
                times = (start + parts * (end - start)).astype(np.int64)
                for timeline in self.timelines.values():
                    timeline.add(times, np.full(PARTS, column), shares[:, None])


def grown_by(before: dict[int, int], after: dict[int, int]) -> int:
    """Return how many offsets were added to the partitions that were known before.

    >>> grown_by({0: 5, 1: 7}, {0: 8, 1: 2, 2: 9})
    3
    """
    return sum(max(0, end - before[number]) for number, end in after.items() if number in before)
