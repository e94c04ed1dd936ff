"""Where logs end in, records a second out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from streams.dashboard.rates import timelines
from streams.dashboard.source import TOPICS, Look

PARTS = 48  # of the time between two known offsets, so that bins of any width get their share
STREAMS = (*TOPICS, "lists")  # lists: joined, in the net, as the samples say


class Throughput:
    """Counts how far each topic has grown between looks; a topic that was made again begins anew."""

    def __init__(self) -> None:
        self.timelines = timelines(fields=1)
        self.rates: dict[str, float] = {}
        self._before: Look | None = None
        for timeline in self.timelines.values():
            timeline.widen(len(STREAMS))

    def add(self, look: Look, *, lists: int) -> None:
        """Note a look that has added ``lists`` lists."""
        before, self._before = self._before, look
        self._remember(look)
        if before is None or look.at_ms <= before.at_ms:
            return
        grown = {topic: grown_by(before.ends.get(topic, {}), look.ends.get(topic, {})) for topic in TOPICS}
        grown["lists"] = 0 if before.behind else lists  # history is no throughput
        amounts = np.array([[grown[name]] for name in STREAMS])
        times = np.full(len(STREAMS), look.at_ms)
        for timeline in self.timelines.values():
            timeline.add(times, np.arange(len(STREAMS)), amounts)
        seconds = (look.at_ms - before.at_ms) / 1000
        smooth = np.exp(-seconds / 10)  # over about 10 s, so that a figure can be read
        for name in STREAMS:
            new = grown[name] / seconds
            self.rates[name] = new + smooth * (self.rates[name] - new) if name in self.rates else new

    def _remember(self, look: Look) -> None:
        """Spread what was added between two times of the past evenly over the time between them."""
        parts = np.arange(PARTS) / PARTS
        for (start, before), (end, after) in pairwise(look.past):
            for column, topic in enumerate(TOPICS):
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
