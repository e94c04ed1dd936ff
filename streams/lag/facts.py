"""What is known about each partition of a group, from its commits and looks at its logs (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streams.lag.commit_records import Committed, position_of
from streams.lag.verdict import Facts, OffsetAt, OpenTransaction, Window
from streams.logs import TopicPartition

OffsetsAt = Callable[[Iterable[TopicPartition], int], Mapping[TopicPartition, int | None]]


class LogState(NamedTuple):
    """Where a partition begins and ends."""

    start: int
    end: int  # last stable offset
    high: int  # high watermark


class Retention(NamedTuple):
    """What a topic's config says about time."""

    retention_s: float | None  # None: for ever
    live: bool  # records are stamped as they are written, so that stamps can be compared with now
    compacts: bool  # records may vanish anywhere
    by_size: bool = False  # records are also deleted when there are too many
    known: bool = True  # else it is what the topic should have


class Unread(NamedTuple):
    """What lies between a position and the end."""

    records: int
    exact: bool
    first_ms: int | None


class Ends:
    """Remembers the ends of logs for six spans of the window, as some groups commit rarely.

    What they were before somebody looked is read off their time stamps: ``offsets_at`` tells the first offset with a
    time stamp from a time on, None when there is none yet.
    """

    def __init__(self, window: Window, offsets_at: OffsetsAt) -> None:
        self.window = window
        self._offsets_at = offsets_at
        self._marks: dict[TopicPartition, list[OffsetAt]] = {}
        self._topic_ids: dict[TopicPartition, str] = {}  # a topic made again has another past
        self.since_ms: dict[TopicPartition, int] = {}  # when each was first looked at

    def note(
        self, logs: Mapping[TopicPartition, LogState], topic_ids: Mapping[str, str], now_ms: int
    ) -> dict[TopicPartition, list[OffsetAt]]:
        """Take in where logs end now, and return their marks, oldest first."""
        ids = {partition: topic_ids[partition.topic] for partition in logs}
        new = [partition for partition, topic_id in ids.items() if self._topic_ids.get(partition) != topic_id]
        self.since_ms |= dict.fromkeys(new, now_ms)
        marks = self._marks | (self._past(new, logs, now_ms) if new else {})
        before_ms = now_ms - 6 * self.window.span_s * 1000
        for partition, log in logs.items():
            marks[partition] = [*marks[partition], OffsetAt(now_ms, log.end)]
            while len(marks[partition]) > 1 and marks[partition][1].at_ms < before_ms:
                del marks[partition][0]
        self._topic_ids, self._marks = ids, {partition: marks[partition] for partition in logs}
        return self._marks

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


@dataclass(frozen=True, slots=True)
class LogsView:
    """What all groups share: the logs at one time."""

    now_ms: int
    topic_ids: Mapping[str, str]
    retention: Mapping[str, Retention]
    logs: Mapping[TopicPartition, LogState]
    ends: Mapping[TopicPartition, Sequence[OffsetAt]]
    since_ms: Mapping[TopicPartition, int]  # when a log was first looked at; ends before are read off time stamps
    held: Mapping[TopicPartition, tuple[int, str]]  # since when, and by whose transaction
    newest_ms: Mapping[TopicPartition, int]  # of logs that were not written live
    oldest_ms: Mapping[TopicPartition, int]


def newest_last(history: Sequence[Committed], now: Committed | None, now_ms: int) -> list[Committed]:
    """Return a history that ends with what the group says now, which may be newer; nothing if that is nothing.

    >>> newest_last([Committed(5, "", 1000)], Committed(7), 2000)[-1]
    Committed(offset=7, metadata='', at_ms=2000, topic_id='')
    """
    if now is None:
        return []
    if history and (history[-1].offset, history[-1].metadata) == (now.offset, now.metadata):
        return list(history)
    return [*history, now._replace(at_ms=now_ms)] if history else [now]


def reading_from(commits: Sequence[Committed], partition: TopicPartition, view: LogsView, *, join: bool) -> int:
    """Return the offset from which a group has not read yet."""
    start = view.logs[partition].start
    if not commits or _of_other_log(commits[-1], partition, view, join=join):
        return start
    return max(start, position_of(commits[-1], join=join).position)


def facts_of(
    commits: Sequence[Committed], partition: TopicPartition, view: LogsView, unread: Unread, *, join: bool
) -> Facts:
    """Return what is known of one partition of a group, from its commits, oldest first."""
    log, now_ms = view.logs[partition], view.now_ms
    retention = view.retention[partition.topic]
    reached = position_of(commits[-1], join=join) if commits else None
    other = bool(commits) and _of_other_log(commits[-1], partition, view, join=join)
    needed_ms = None
    if reached is not None and commits[-1].offset < reached.position:
        # events that wait for others are read again after a restart; before the first record there is no clock yet
        needed_ms = reached.clock_ms or view.oldest_ms.get(partition)
    if needed_ms is None:
        needed_ms = unread.first_ms
    transaction = None
    if partition in view.held:
        since_ms, writer = view.held[partition]
        transaction = OpenTransaction(max(0.0, (now_ms - since_ms) / 1000), writer, log.high - log.end)
    return Facts(
        topic=partition.topic,
        partition=partition.partition,
        start=log.start,
        end=log.end,
        high=log.high,
        committed=commits[-1].offset if commits else None,
        position=reached.position if reached else None,
        commits=[
            OffsetAt(commit.at_ms, position_of(commit, join=join).position)
            for commit in commits
            if commit.at_ms is not None and not _of_other_log(commit, partition, view, join=join)
        ],
        ends=view.ends[partition],
        since_ms=view.since_ms[partition],
        unread=unread.records,
        exact=unread.exact,
        unread_ms=unread.first_ms,
        # a record dated far ahead must not make the others old
        clock_ms=now_ms if retention.live else min(now_ms, view.newest_ms.get(partition, now_ms)),
        live=retention.live,
        needed_ms=needed_ms,
        retention_s=retention.retention_s,
        transaction=transaction,
        other_log=other,
        note=reached.problem if reached else "",
    )


def _of_other_log(commit: Committed, partition: TopicPartition, view: LogsView, *, join: bool) -> bool:
    stated = position_of(commit, join=join).topic_id
    return bool(stated) and stated != view.topic_ids[partition.topic]
