"""One partition's polled records on their way into its join: the log that is behind goes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition

from streams.broker import GroupConsumer
from streams.join.clock import IdleTime, LogClock
from streams.join.commit import Commit
from streams.join.job.writer import Outgoing, outgoing
from streams.join.log_part import NEVER
from streams.join.outbox import Checkpoint
from streams.join.session_join import SessionJoin
from streams.settings import Topics

QUIET_S = 0.3  # a log that was read to its end and stays silent for this long closes lists by the idle time
IDLE_MARGIN_S = 60.0  # and for this long, has lists forgotten by it: how late a record may still be stamped
PATIENCE_S = 1.0  # how long a log waits for the other one, which should have records and gives none
MOST_TRIES = 5  # to commit one checkpoint; then it is made anew from the log, and smaller
CLOCKS_EVERY_S = 5.0  # how often a commit is renewed when only clocks have moved
AHEAD_MS = 2_000  # how far one log may run ahead of the other while there is a backlog

Now = Callable[[], float]
Entries = tuple[tuple[int, str], tuple[int, str]]  # offset and metadata, of impressions and of clicks


class InputLog:
    """One of the two logs: its fetched records that are not joined yet, and how far it was fetched."""

    def __init__(
        self, clock: LogClock, add: Callable[[Sequence[Any], int | None], None], processed: int, now: Now
    ) -> None:
        self.clock, self._add, self._processed, self._now = clock, add, processed, now
        self.fetched_to = clock.offset
        self.end: int | None = None  # the log's end as the broker last told
        self.heard_at = now()
        self.stamp = NEVER  # of the last record that was joined
        self._chunks: deque[list[Any]] = deque()

    def fetched(self, records: list[Any]) -> None:
        """Keep what was polled."""
        self._chunks.append(records)
        self.fetched_to = records[-1].offset + 1
        self.heard_at = self._now()

    def passed(self, offset: int) -> None:
        """Note that nothing but markers lies before ``offset``."""
        self.fetched_to = max(self.fetched_to, offset)
        if not self._chunks and offset > self.clock.offset:
            self._add([], offset)

    @property
    def rebuilt(self) -> bool:
        """Whether all that was processed before the restart has been read again."""
        return self.clock.offset >= self._processed

    @property
    def at_end(self) -> bool:
        """Whether nothing is left that we know of."""
        return not self._chunks and self.end is not None and self.fetched_to >= self.end

    @property
    def behind(self) -> int:
        """How many offsets lie between what was joined and the log's end."""
        return 0 if self.end is None else max(0, self.end - self.clock.offset)

    @property
    def waits(self) -> bool:
        """Whether a record is fetched and not joined yet."""
        return bool(self._chunks)

    def next_at(self) -> int:
        """Return the time that the next record can move the log's clock to: far ahead alone, it moves nothing."""
        stamp = int(self._chunks[0][0].timestamp)
        return sorted((stamp, self.clock.top.first, self.clock.clock))[1]

    def feed(self, *, rebuilding: bool, room: Callable[[list[Any]], int]) -> bool:
        """Give the next batch to the join, as far as it has room; while it rebuilds, only what was processed before."""
        records = self._chunks.popleft()
        if rebuilding and records[-1].offset >= self._processed:
            old = [record for record in records if record.offset < self._processed]
            self._chunks.appendleft(records[len(old) :])
            self._add(old, self._processed)
            return True
        count = len(records) if rebuilding else room(records)
        if count < len(records):
            self._chunks.appendleft(records[count:])
        if count:
            self._add(records[:count], None)
            self.stamp = int(records[count - 1].timestamp)
        return count > 0


class Pending(NamedTuple):
    """An encoded checkpoint, kept until it is known to be committed."""

    checkpoint: Checkpoint
    entries: Entries
    records: list[Outgoing]

    @property
    def record_bytes(self) -> int:
        """The bytes of all keys and values."""
        return sum(len(record.key or b"") + len(record.value or b"") for record in self.records)


class PartitionJoin:
    """The join of one partition with its two logs."""

    def __init__(self, join: SessionJoin, resume: Commit, *, now: Now, append_time: bool = False) -> None:
        self.join, self._now, self._append_time = join, now, append_time
        self.impressions = InputLog(join.impressions, join.add_impressions, resume.impressions.processed, now)
        self.clicks = InputLog(join.clicks, join.add_clicks, resume.clicks.processed, now)
        self.committed: Entries | None = None  # what the broker has of this partition
        self.pending: Pending | None = None
        self._idle = IdleTime()
        self.tries = 0  # how often what is pending was found not to have been committed
        self.moved_to = resume.impressions.processed, resume.clicks.processed  # by what it has
        self.committed_at = now()

    @property
    def logs(self) -> tuple[InputLog, InputLog]:
        """Impressions and clicks."""
        return self.impressions, self.clicks

    def turn(self, consumer: GroupConsumer, places: Sequence[TopicPartition], most_bytes: int) -> None:
        """Join what was fetched of both logs; of one whose records still wait for the other no more is fetched."""
        for place, log in zip(places, self.logs, strict=True):
            end, position = consumer.end(place), consumer.position(place)
            log.end = log.end if end is None else end
            if position is not None:
                log.passed(position)
        self.feed(most_bytes)
        for place, log in zip(places, self.logs, strict=True):
            if log.waits:
                consumer.pause(place)
            else:
                consumer.resume(place)

    def feed(self, most_bytes: int) -> bool:
        """Join what can be joined before a checkpoint of ``most_bytes``; return whether something was."""
        fed = False
        while (log := self._next()) is not None:
            if not log.feed(
                rebuilding=self.join.rebuilding, room=lambda records: self.join.room_for(records, most_bytes)
            ):
                break
            fed = True
        self.idle_ms()  # from now on time passes since what was read
        return fed

    def _next(self) -> InputLog | None:
        if self.join.rebuilding:  # in the end both logs stand exactly where they stood
            ready = [log for log in self.logs if log.waits and not log.rebuilt]
        else:
            ready = [log for log in self.logs if log.waits]
        if not ready:
            return None
        if len(ready) == 2:  # a list is shown before it is clicked; clicks that come first must be kept for it
            first = self.impressions.next_at() <= self.clicks.next_at() + AHEAD_MS
            return self.impressions if first else self.clicks
        [log] = ready
        other = self.clicks if log is self.impressions else self.impressions
        if other.at_end or (self.join.rebuilding and other.rebuilt):
            return log
        if log.next_at() <= other.clock.clock + AHEAD_MS:
            return log
        return log if self._now() - other.heard_at > PATIENCE_S else None

    def idle_ms(self) -> int:
        """Return the time that a silent log has come to: what either log's clock says, and the time since it was read.

        Never a worker's own idea of the time of day, which may be a day ahead. The broker's own stamps are true one by
        one: without that, a list that is alone after a silence which no worker has seen would wait for as long again.
        """
        stamps = [log.stamp for log in self.logs] if self._append_time else []
        self._idle.heard(max([self.join.time_ms, *stamps]), at_s=self._now())
        return self._idle.now_ms(at_s=self._now())

    def closing_clock(self) -> int:
        """Return the time by which lists close: that of the slower log, or the idle time where all is quiet."""
        quiet_before, idle_ms = self._now() - QUIET_S, self.idle_ms()
        return min(idle_ms if log.at_end and log.heard_at < quiet_before else log.clock.clock for log in self.logs)

    def silent(self, log: InputLog) -> bool:
        """Return whether a log has been silent for so long that what it gets next will bear a later time."""
        return not self.join.rebuilding and log.at_end and self._now() - log.heard_at > IDLE_MARGIN_S

    def note_silence(self, ends: Sequence[int]) -> None:
        """Let lists be forgotten although a log is silent, if these are the ends of the logs just now."""
        idle_ms = self.idle_ms() - int(1000 * IDLE_MARGIN_S)
        impressions_ms, clicks_ms = (
            idle_ms if self.silent(log) and log.fetched_to >= end else None
            for log, end in zip(self.logs, ends, strict=True)
        )
        self.join.idle(impressions_ms=impressions_ms, clicks_ms=clicks_ms)

    def prepare(self, topics: Topics, topic_ids: tuple[str, str], *, most_bytes: int) -> None:
        """Take a checkpoint, if the last one is out and this one is worth a transaction."""
        if self.pending is not None or self.join.rebuilding:
            return
        checkpoint = self.join.checkpoint(self.closing_clock(), most_bytes=most_bytes)
        entries = checkpoint.commit.encode(topic_ids)
        if self._is_due(checkpoint, entries):
            self.pending = Pending(checkpoint, entries, list(outgoing(checkpoint, topics, topic_ids[0])))

    def _is_due(self, checkpoint: Checkpoint, entries: Entries) -> bool:
        """Return whether there is something to write, or a log was read on."""
        if checkpoint.samples or checkpoint.dead_letters or checkpoint.late_clicks or checkpoint.rules:
            return True
        processed = checkpoint.commit.impressions.processed, checkpoint.commit.clicks.processed
        if processed != self.moved_to or self.committed is None:
            return True
        return entries != self.committed and self._now() - self.committed_at > CLOCKS_EVERY_S

    def written(self) -> Checkpoint:
        """Note that what was pending is committed, and return it."""
        assert self.pending is not None
        checkpoint, self.committed, _ = self.pending
        self.pending, self.tries, self.committed_at = None, 0, self._now()
        self.moved_to = checkpoint.commit.impressions.processed, checkpoint.commit.clicks.processed
        return checkpoint

    def still_at(self, committed: Entries) -> bool:
        """Return whether this join goes on from what the broker has now; what is pending may have taken effect."""
        if self.pending is not None and committed == self.pending.entries:
            self.written()
        if self.pending is not None:
            self.tries += 1
        return committed == self.committed and self.tries <= MOST_TRIES
