"""Where logs ended over the last while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streams.lag.facts import LogState
from streams.lag.verdict import OffsetAt, Window
from streams.logs import TopicPartition

OffsetsAt = Callable[[Iterable[TopicPartition], int], Mapping[TopicPartition, int | None]]


class Ends:
    """Remembers the ends of logs; what they were before somebody looked is read off their time stamps.

    Parameters
    ----------
    window
        How long to remember: several of its spans, for groups that commit rarely.
    offsets_at
        Tells the first offset with a time stamp from a time on, None when there is none yet.
    """

    def __init__(self, window: Window, offsets_at: OffsetsAt) -> None:
        self.window = window
        self._offsets_at = offsets_at
        self._marks: dict[tuple[TopicPartition, str], list[OffsetAt]] = {}  # a topic made again has another past
        self.since_ms: dict[TopicPartition, int] = {}  # when each was first looked at

    def note(
        self, logs: Mapping[TopicPartition, LogState], topic_ids: Mapping[str, str], now_ms: int
    ) -> dict[TopicPartition, list[OffsetAt]]:
        """Take in where logs end now, and return their marks, oldest first."""
        keys = {partition: (partition, topic_ids[partition.topic]) for partition in logs}
        new = [partition for partition, key in keys.items() if key not in self._marks]
        past = self._past(new, logs, now_ms) if new else {}
        self.since_ms |= dict.fromkeys(new, now_ms)
        before_ms = now_ms - 6 * self.window.span_s * 1000
        marks = {}
        for partition, key in keys.items():
            known = [*self._marks.get(key, past.get(partition, [])), OffsetAt(now_ms, logs[partition].end)]
            while len(known) > 1 and known[1].at_ms < before_ms:
                del known[0]
            marks[key] = known
        self._marks = marks
        return {partition: marks[key] for partition, key in keys.items()}

    def _past(
        self, partitions: list[TopicPartition], logs: Mapping[TopicPartition, LogState], now_ms: int
    ) -> dict[TopicPartition, list[OffsetAt]]:
        marks: dict[TopicPartition, list[OffsetAt]] = {partition: [] for partition in partitions}
        step_ms = self.window.span_s * 1000 / self.window.commits
        for step in range(self.window.commits + self.window.commits // 2, 0, -1):
            at_ms = round(now_ms - step * step_ms)
            for partition, offset in self._offsets_at(partitions, at_ms).items():
                end = logs[partition].end
                marks[partition].append(OffsetAt(at_ms, end if offset is None else min(offset, end)))
        return marks
