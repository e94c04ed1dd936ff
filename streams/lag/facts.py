"""What is known about each partition of a group, from its commits and one look at its logs (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streams.lag.commit_records import Committed, standing_of
from streams.lag.verdict import Facts, OffsetAt, OpenTransaction
from streams.logs import TopicPartition


class LogState(NamedTuple):
    """Where a partition begins and ends."""

    start: int
    end: int  # last stable offset
    high: int  # high watermark


class Keeping(NamedTuple):
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
    keeping: Mapping[str, Keeping]
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


def reading_from(commits: Sequence[Committed], place: TopicPartition, look: LogsView, *, join: bool) -> int:
    """Return the offset from which a group has not read yet."""
    start = look.logs[place].start
    if not commits or _of_other_log(commits[-1], place, look, join=join):
        return start
    return max(start, standing_of(commits[-1], join=join).position)


def facts_of(
    commits: Sequence[Committed], place: TopicPartition, look: LogsView, unread: Unread, *, join: bool
) -> Facts:
    """Return what is known of one partition of a group, from its commits, oldest first."""
    log, now_ms = look.logs[place], look.now_ms
    keeping = look.keeping[place.topic]
    standing = standing_of(commits[-1], join=join) if commits else None
    other = bool(commits) and _of_other_log(commits[-1], place, look, join=join)
    needed_ms = None
    if standing is not None and commits[-1].offset < standing.position:
        # events that wait for others are read again after a restart; before the first record there is no clock yet
        needed_ms = standing.clock_ms or look.oldest_ms.get(place)
    if needed_ms is None:
        needed_ms = unread.first_ms
    transaction = None
    if place in look.held:
        since_ms, writer = look.held[place]
        transaction = OpenTransaction(max(0.0, (now_ms - since_ms) / 1000), writer, log.high - log.end)
    return Facts(
        topic=place.topic,
        partition=place.partition,
        start=log.start,
        end=log.end,
        high=log.high,
        committed=commits[-1].offset if commits else None,
        position=standing.position if standing else None,
        commits=[
            OffsetAt(one.at_ms, standing_of(one, join=join).position)
            for one in commits
            if one.at_ms is not None and not _of_other_log(one, place, look, join=join)
        ],
        ends=look.ends[place],
        since_ms=look.since_ms[place],
        unread=unread.records,
        exact=unread.exact,
        unread_ms=unread.first_ms,
        # a record dated far ahead must not make the others old
        clock_ms=now_ms if keeping.live else min(now_ms, look.newest_ms.get(place, now_ms)),
        live=keeping.live,
        needed_ms=needed_ms,
        retention_s=keeping.retention_s,
        transaction=transaction,
        other_log=other,
        note=standing.problem if standing else "",
    )


def _of_other_log(commit: Committed, place: TopicPartition, look: LogsView, *, join: bool) -> bool:
    stated = standing_of(commit, join=join).topic_id
    return bool(stated) and stated != look.topic_ids[place.topic]
