"""The owner of one partition: what was read of its two logs, what is pending, and why it is refused."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition

from streams.broker import GroupConsumer, GroupOffset
from streams.join.clock import LogClock
from streams.join.commit import NEVER, Commit
from streams.join.job.writer import Outgoing, outgoing
from streams.join.outbox import Checkpoint
from streams.join.session_join import SessionJoin
from streams.settings import LogPair, Topics

QUIET_S = 0.3  # a log that was read to its end and stays silent for this long closes lists by the idle time
IDLE_MARGIN_S = 60.0  # and for this long, has lists forgotten by it: how late a record may still be stamped
PATIENCE_S = 1.0  # how long a log waits for the other one, which should have records and gives none
WAITING_S, REFUSED_S = 1.0, 60.0  # until a partition that has not begun, or is refused, is tried again
MOST_TRIES = 5  # to commit one checkpoint; then it is made anew from the log, and smaller
CLOCKS_EVERY_S = 5.0  # how often a commit is renewed when only clocks have moved
AHEAD_MS = 2_000  # how far one log may run ahead of the other while there is a backlog

Now = Callable[[], float]
Bounds = Mapping[TopicPartition, tuple[int, int]]
Entries = LogPair[tuple[int, str]]  # offset and metadata
CommittedEntries = LogPair[tuple[int, str] | None]
NOTHING: CommittedEntries = LogPair(None, None)
Inputs = LogPair[TopicPartition]  # of one partition


class InputLog:
    """One of the two logs: its fetched records that are not joined yet, and how far it was fetched."""

    def __init__(
        self, source: TopicPartition, clock: LogClock, add: Callable[[Sequence[Any], int | None], None], now: Now
    ) -> None:
        self.source, self.clock, self._add, self._now = source, clock, add, now
        self.fetched_to = clock.offset
        self.end: int | None = None  # the log's end as the broker last told
        self.heard_at = now()
        self.stamp = NEVER  # of the last record that was joined
        self.chunks: deque[list[Any]] = deque()  # fetched and not joined yet

    def fetched(self, records: list[Any]) -> None:
        """Keep what was polled."""
        self.chunks.append(records)
        self.fetched_to = records[-1].offset + 1
        self.heard_at = self._now()

    def passed(self, offset: int) -> None:
        """Note that nothing but markers lies before ``offset``."""
        self.fetched_to = max(self.fetched_to, offset)
        if not self.chunks and offset > self.clock.offset:
            self._add([], offset)

    @property
    def at_end(self) -> bool:
        """Whether nothing is left that we know of."""
        return not self.chunks and self.end is not None and self.fetched_to >= self.end

    @property
    def behind(self) -> int:
        """How many offsets lie between what was joined and the log's end."""
        return 0 if self.end is None else max(0, self.end - self.clock.offset)

    def next_at(self) -> int:
        """Return the time that the next record can move the log's clock to: far ahead alone, it moves nothing."""
        stamp = int(self.chunks[0][0].timestamp)
        return sorted((stamp, self.clock.top.first, self.clock.clock))[1]

    def feed(self, *, rebuilding: bool, room: Callable[[list[Any]], int]) -> bool:
        """Give the next batch to the join, as far as it has room; while it rebuilds, only what was processed before."""
        records = self.chunks.popleft()
        processed = self.clock.processed
        if rebuilding and records[-1].offset >= processed:
            old = [record for record in records if record.offset < processed]
            self.chunks.appendleft(records[len(old) :])
            self._add(old, processed)
            return True
        count = len(records) if rebuilding else room(records)
        if count < len(records):
            self.chunks.appendleft(records[count:])
        if count:
            self._add(records[:count], None)
            self.stamp = int(records[count - 1].timestamp)
        return count > 0


class Pending(NamedTuple):
    """An encoded checkpoint, kept until it is known to be committed."""

    checkpoint: Checkpoint
    entries: Entries
    records: list[Outgoing]


def offsets_of(inputs: Inputs, entries: Entries) -> dict[TopicPartition, GroupOffset]:
    """Return what is to be committed for one partition."""
    return dict(inputs.paired_with(entries.map(lambda entry: GroupOffset(*entry))))


class JoinOwner:
    """Joins one partition: it is open, refused with a reason, or waits to begin.

    ``join``, ``logs`` and ``pending`` are there while it is open. Another thread may ask why it is ``refused`` and
    whether it is ``rebuilding``.
    """

    def __init__(self, inputs: Inputs, *, now: Now, append_time: bool = False) -> None:
        self.inputs, self._now, self._append_time = inputs, now, append_time
        self.number = inputs.impressions.partition
        self.refused = ""  # why it is not joined at the moment
        self.waits_until = math.inf  # to be opened then, by the monotonic clock
        self.has_written = False  # whether this process has committed the partition; --anew then no longer applies
        self._drop()

    def _drop(self) -> None:
        """Forget what was read: somebody else has gone on, or nobody may."""
        self._join: SessionJoin | None = None
        self._logs: LogPair[InputLog] | None = None
        self.pending: Pending | None = None
        self.committed = NOTHING

    def open(self, join: SessionJoin, resume: Commit, committed: CommittedEntries = NOTHING) -> None:
        """Go on from ``resume``; ``committed`` are the entries that the broker has of this partition."""
        self._join = join
        self._logs = LogPair(
            InputLog(self.inputs.impressions, join.impressions, join.add_impressions, self._now),
            InputLog(self.inputs.clicks, join.clicks, join.add_clicks, self._now),
        )
        self.committed = committed
        self._heard_ms, self._heard_at = NEVER, 0.0  # the latest time that the logs told, and when that was
        self.tries = 0  # how often what is pending was found not to have been committed
        self._processed = resume.processed  # by what is committed
        self._committed_at = self._now()

    def read_on(self, consumer: GroupConsumer) -> None:
        """Have both logs fetched from where they were read to."""
        self.refused, self.waits_until = "", math.inf
        for log in self.logs:
            consumer.seek(log.source, log.fetched_to)
            consumer.resume(log.source)

    def refuse(self, why: str) -> None:
        """Leave the partition alone for a while."""
        self._drop()
        self.refused, self.waits_until = why, self._now() + REFUSED_S

    def wait(self) -> None:
        """Look again soon: nobody has written yet where the partition begins."""
        self.waits_until = self._now() + WAITING_S

    def close(self) -> None:
        """Leave the partition to another worker, or to what its topics are now."""
        self._drop()
        self.refused, self.waits_until = "", math.inf

    @property
    def due(self) -> bool:
        """Whether it waited long enough to be opened."""
        return self._now() >= self.waits_until

    @property
    def is_open(self) -> bool:
        """Whether it is joined."""
        return self._join is not None

    @property
    def rebuilding(self) -> bool:
        """Whether it still rereads what was processed."""
        join = self._join  # another thread may drop it
        return join is not None and join.rebuilding

    @property
    def join(self) -> SessionJoin:
        """The join."""
        assert self._join is not None
        return self._join

    @property
    def logs(self) -> LogPair[InputLog]:
        """Both logs, as far as they were read."""
        assert self._logs is not None
        return self._logs

    @property
    def behind(self) -> LogPair[int]:
        """How many offsets of each log are still to be joined."""
        return self.logs.map(lambda log: log.behind)

    def feed(self, consumer: GroupConsumer, most_bytes: int) -> None:
        """Join what was fetched of both logs; of one whose records still wait for the other no more is fetched."""
        for log in self.logs:
            end, position = consumer.end(log.source), consumer.position(log.source)
            log.end = log.end if end is None else end
            if position is not None:
                log.passed(position)
        self.join_read(most_bytes)
        for log in self.logs:
            if log.chunks:
                consumer.pause(log.source)
            else:
                consumer.resume(log.source)

    def join_read(self, most_bytes: int) -> None:
        """Join what can be joined before a checkpoint of ``most_bytes``."""

        def room(records: list[Any]) -> int:
            return self.join.room_for(records, most_bytes)

        while (log := self._next()) is not None and log.feed(rebuilding=self.join.rebuilding, room=room):
            pass
        self.idle_ms()  # from now on time passes since what was read

    def _next(self) -> InputLog | None:
        """Return the log to feed from: of two the one that is behind, of one if it need not wait for the other."""
        impressions, clicks = self.logs
        rebuilding = self.join.rebuilding  # in the end both logs stand exactly where they stood
        ready = [log for log in self.logs if log.chunks and not (rebuilding and log.clock.rebuilt)]
        if not ready:
            return None
        if len(ready) == 2:  # a list is shown before it is clicked; clicks that come first must be kept for it
            return impressions if impressions.next_at() <= clicks.next_at() + AHEAD_MS else clicks
        [log] = ready
        other = clicks if log is impressions else impressions
        may_go = (
            other.at_end
            or (rebuilding and other.clock.rebuilt)
            or log.next_at() <= other.clock.clock + AHEAD_MS
            or self._now() - other.heard_at > PATIENCE_S
        )
        return log if may_go else None

    def idle_ms(self) -> int:
        """Return the time that a silent log has come to: what either log's clock says, and the time since it was read.

        Never a worker's own idea of the time of day, which may be a day ahead and would stay in the commits. The
        broker's own stamps are true one by one: without that, a list that is alone after a silence which no worker has
        seen would wait for as long again. Logs without any stamp have no time: NEVER, which closes nothing.
        """
        now, stamps = self._now(), [log.stamp for log in self.logs] if self._append_time else []
        idle_ms = self._heard_ms + (int((now - self._heard_at) * 1000) if self._heard_ms > NEVER else 0)
        told_ms = max([self.join.time_ms, *stamps])
        if told_ms > idle_ms:
            self._heard_ms, self._heard_at, idle_ms = told_ms, now, told_ms
        return idle_ms

    def closing_clock(self) -> int:
        """Return the time by which lists close: that of the slower log, or the idle time where all is quiet."""
        quiet_before, idle_ms = self._now() - QUIET_S, self.idle_ms()
        return min(idle_ms if log.at_end and log.heard_at < quiet_before else log.clock.clock for log in self.logs)

    @property
    def silent(self) -> bool:
        """Whether a log has been silent for so long that what it gets next will bear a later time."""
        return any(map(self._is_silent, self.logs))

    def _is_silent(self, log: InputLog) -> bool:
        return not self.join.rebuilding and log.at_end and self._now() - log.heard_at > IDLE_MARGIN_S

    def maintain(self, bounds: Bounds) -> None:
        """Let lists be forgotten although a log is silent, if these are the bounds of the logs just now."""
        idle_ms = self.idle_ms() - int(1000 * IDLE_MARGIN_S)
        times = self.logs.map(
            lambda log: idle_ms if self._is_silent(log) and log.fetched_to >= bounds[log.source][1] else None
        )
        self.join.idle(impressions_ms=times.impressions, clicks_ms=times.clicks)

    def checkpoint(self, topics: Topics, topic_ids: LogPair[str], *, most_bytes: int) -> None:
        """Take a checkpoint, if the last one is out and this one is worth a transaction."""
        if self.pending is not None or self.join.rebuilding:
            return
        checkpoint = self.join.checkpoint(self.closing_clock(), most_bytes=most_bytes)
        entries = checkpoint.commit.encode(topic_ids)
        if self._is_due(checkpoint, entries):
            self.pending = Pending(checkpoint, entries, list(outgoing(checkpoint, topics, topic_ids.impressions)))

    def _is_due(self, checkpoint: Checkpoint, entries: Entries) -> bool:
        """Return whether there is something to write, or a log was read on."""
        records = checkpoint.samples or checkpoint.dead_letters or checkpoint.late_clicks or checkpoint.rules
        if records or checkpoint.commit.processed != self._processed or None in self.committed:
            return True
        return entries != self.committed and self._now() - self._committed_at > CLOCKS_EVERY_S

    def offsets(self) -> dict[TopicPartition, GroupOffset]:
        """Return what is to be committed with what is pending."""
        assert self.pending is not None
        return offsets_of(self.inputs, self.pending.entries)

    def written(self) -> Checkpoint:
        """Note that what was pending is committed, and return it."""
        assert self.pending is not None
        checkpoint, self.committed, _ = self.pending
        self.pending, self.tries, self._committed_at = None, 0, self._now()
        self.has_written = True
        self._processed = checkpoint.commit.processed
        return checkpoint

    def still_at(self, committed: CommittedEntries) -> bool:
        """Return whether it goes on from what the broker has now; what is pending may have taken effect."""
        if self.pending is not None and committed == self.pending.entries:
            self.written()
        if self.pending is not None:
            self.tries += 1
        return None not in committed and committed == self.committed and self.tries <= MOST_TRIES
