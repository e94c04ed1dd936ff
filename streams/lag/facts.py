"""What is known about each partition of a group, from its commits and one look at its logs (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streams.lag.commit_records import Committed, position_of
from streams.lag.verdict import Facts, OffsetAt, OpenTransaction
from streams.logs import TopicPartition


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
    if not history:
        return [now]
    last = history[-1]
    if (last.offset, last.metadata) == (now.offset, now.metadata):
        return list(history)
    return [*history, now._replace(at_ms=now_ms)]


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
            OffsetAt(one.at_ms, position_of(one, join=join).position)
            for one in commits
            if one.at_ms is not None and not _of_other_log(one, partition, view, join=join)
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
