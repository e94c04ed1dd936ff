"""One member of the join's group: polls both logs, joins what it is assigned, and commits in transactions."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    IllegalStateError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
)

from streams.broker import (
    REAL_CLOCKS,
    BrokerPort,
    GroupConsumer,
    GroupOffset,
    JobClocks,
    JobMemory,
    UnreadableBatch,
)
from streams.events import Acceptance
from streams.join.commit import Commit
from streams.join.job.partition import Entries, PartitionJoin
from streams.join.job.starts import UNREADABLE, Bounds, CommittedNow, JoinRefused, Starts, half_of, ways_out
from streams.join.job.watch import JoinWatch
from streams.join.job.writer import JoinWriter, Pace
from streams.join.log_part import BadCommit
from streams.join.session_join import SessionJoin
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

CHECKPOINT_EVERY_S = 0.25
POLL_MS = 50
IDLE_CHECK_S = 5.0
MANY_BEHIND = 10_000  # records to be read, whose buffers are worth giving back
AGAIN_S, MOST_AGAIN_S = 0.5, 5.0  # to the next look after an error, and after many
ONE_NAME_EACH = "give each join process a group_instance_id of its own"
WAITING_S, REFUSED_S = 1.0, 60.0  # to the next look at what has not begun, and at what is refused


class JoinJob:
    """One member of the join's group.

    Parameters
    ----------
    settings
        Topics, buckets and times.
    broker
        Where they are.
    start
        Where a join that never began begins; None refuses to begin. Of no effect afterwards.
    anew
        Whether ``start`` also tells where a partition begins again whose commit cannot be used.
    clocks, stopping
        The time, and what is set to end the job.
    """

    _consumer: GroupConsumer

    def __init__(
        self,
        settings: Settings,
        broker: BrokerPort,
        *,
        start: str | None = None,
        anew: bool = False,
        clocks: JobClocks = REAL_CLOCKS,
        stopping: threading.Event | None = None,
    ) -> None:
        self._broker, self._now = broker, clocks.monotonic
        self._accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
        self._wait_ms, self._lateness_ms = int(settings.wait_s * 1000), int(settings.lateness_s * 1000)
        self._append_time = settings.timestamps == "LogAppendTime"
        self._topics = Topics.of(settings)
        # By its own name a static member ends at once what it was killed in, instead of waiting for that to time out.
        self._name = settings.group_instance_id
        self._writer_name = f"glimpse-join-{self._name or uuid.uuid4()}"
        self._writer: JoinWriter | None = None
        self._pace, self._again_s = Pace(), AGAIN_S
        self._memory, self._backlog = JobMemory(), JobMemory(few=MANY_BEHIND)  # of lists, and of what was fetched
        self._starts = Starts(broker, self._topics, start=start, anew=anew, now=self._now)
        self._joins: dict[int, PartitionJoin] = {}
        self._refused: dict[int, str] = {}
        self._look_again_at: float | None = None
        self._member: Any = None  # what the group called us when it assigned the partitions
        self._checkpoint_at = self._idle_at = self._now()
        self.stopping = stopping or threading.Event()
        self.watch = JoinWatch(self._joins, wait_s=settings.wait_s, lateness_s=settings.lateness_s)
        self.watch.refused = self._refused

    def run(self) -> None:
        """Join until ``stopping`` is set."""
        self.begin()
        try:
            while not self.stopping.is_set():
                self.turn()
            self.finish()
        except FencedInstanceIdError as error:  # were both to go on, they would take the partitions from each other
            raise JoinRefused(f"another join is called {self._name!r}, and has taken over; {ONE_NAME_EACH}") from error
        finally:
            self.close()

    def begin(self) -> None:
        """Enter the group."""
        self._consumer = self._broker.group_consumer("glimpse-join", self._topics.events)

    def finish(self) -> None:
        """Commit what is joined."""
        if self._writer is not None and self._member is not None:
            self._survive(self._commit)

    def close(self) -> None:
        """Leave the group, whatever was not committed."""
        self._drop_writer()
        self._starts.close()
        self._consumer.close()

    def turn(self) -> None:
        """Poll once and do what is due."""
        self.watch.turned()
        polled = self._poll()
        now = self._now()
        if self._consumer.moved() or (self._look_again_at is not None and now >= self._look_again_at):
            self._survive(self._reassign)
            return  # what was polled before is fetched again
        if self._writer is None or self._member is None:
            return  # nothing is assigned, or what is committed is not known: then too
        for place, records in polled.items():
            if place.partition in self._joins:
                self._joins[place.partition].logs[place.topic == self._topics.clicks].fetched(list(records))
        most_bytes = self._pace.bytes // max(1, len(self._joins))
        self._with_each(lambda number, one: one.turn(self._consumer, self._starts.inputs(number), most_bytes))
        self._memory.holds(sum(len(one.join) for one in self._joins.values()))
        self._backlog.holds(sum(log.behind for one in self._joins.values() for log in one.logs))
        if now - self._checkpoint_at >= CHECKPOINT_EVERY_S:
            self._survive(self._commit)
            self._checkpoint_at = self._now()
        if now - self._idle_at >= IDLE_CHECK_S:
            self._note_silence()
            if not self._memory.give_back():
                self._backlog.give_back()
            self._idle_at = now

    def _poll(self) -> Mapping[TopicPartition, Sequence[Any]]:
        try:
            return self._consumer.poll(POLL_MS)
        except OffsetOutOfRangeError as error:
            self._refuse_all(error.args[0], "events that are still needed are gone")
        except LogTruncationError as error:
            self._refuse_all(error.divergent_offsets, "the log has lost its end, and events that were joined")
        except UnreadableBatch as error:  # what follows may be joined only when this was
            self._refuse_all(error.args[0], f"{error}; {UNREADABLE}")
        except (AuthorizationError, FencedInstanceIdError):
            raise
        except KafkaError as error:
            log.warning("cannot poll: %r", error)
            self.stopping.wait(0.5)
        return {}

    def _with_each(self, work: Callable[[int, PartitionJoin], None]) -> None:
        """Do ``work`` with the join of each partition; what fails with one of them, whatever it is, stops it alone."""
        for partition, partition_join in list(self._joins.items()):
            try:
                work(partition, partition_join)
            except IllegalStateError:  # it was taken away just now; the next turn sees to that
                continue
            except Exception as error:
                log.exception("partition %d", partition)
                self._refuse_all(self._starts.inputs(partition)[:1], f"cannot be joined: {error!r}")

    def _reassign(self) -> None:
        """Keep the joins whose partitions came back untouched, drop the others, and open those that are new."""
        # Taken before the commits are looked at: whoever takes a partition over later makes this membership stale,
        # and the broker then refuses what is committed with it.
        self._member, self._look_again_at, self.watch.assigned = self._consumer.member(), None, False
        if self._member is None:
            return  # the group says more soon
        if self._writer is None:
            self._writer = JoinWriter(self._broker, self._writer_name, last=self._topics.samples)
        places = self._consumer.assignment()
        numbers = sorted({place.partition for place in places})
        assigned = [number for number in numbers if places.issuperset(self._starts.inputs(number))]
        gone = {*self._joins, *self._refused} - {*numbers}
        if gone:
            log.info("partitions %s went to another worker", sorted(gone))
        for partition in {*self._joins, *self._refused} if self._starts.look() else gone:
            self._forget(partition)
        if 0 in assigned:
            self._starts.decide(self._consumer, self._writer, self._member)
        self._starts.read()
        inputs = {partition: self._starts.inputs(partition) for partition in assigned}
        committed = self._consumer.committed(chain(*inputs.values()))
        bounds = self._consumer.bounds(chain(*inputs.values()))
        for place in places:
            if place.partition not in assigned:  # somebody has added partitions to one of the two topics
                self._consumer.seek(place, 0)
                self._refuse(place.partition, half_of(place))
        waiting = [number for number in assigned if not self._open(number, committed, bounds)]
        pause_s = WAITING_S if waiting else REFUSED_S if self._refused else None
        self._look_again_at = None if pause_s is None else self._now() + pause_s
        self.watch.assigned = not waiting

    def _forget(self, partition: int) -> None:
        self._joins.pop(partition, None)
        self._refused.pop(partition, None)
        self.watch.forget(partition)

    def _refuse(self, partition: int, why: str) -> None:
        """Leave a partition alone, and go on with the others."""
        log.error("not joined: %s", why)
        self._forget(partition)
        self._refused[partition] = why
        for place in self._consumer.assignment().intersection(self._starts.inputs(partition)):
            with suppress(IllegalStateError):  # it was taken away just now
                self._consumer.pause(place)

    def _refuse_all(self, places: Iterable[TopicPartition], why: str) -> None:
        """Leave these partitions alone for a while."""
        for place in places:
            self._refuse(place.partition, f"partition {place.partition} of {place.topic}: {why}; {ways_out()}")
        later = self._now() + REFUSED_S
        self._look_again_at = later if self._look_again_at is None else min(self._look_again_at, later)

    def _open(self, partition: int, committed: CommittedNow, bounds: Bounds) -> bool:
        """Have a partition joined from where it stands, or refuse it; return whether it has begun."""
        places = self._starts.inputs(partition)
        entries: Any = committed[places[0]], committed[places[1]]
        for place in places:
            self._consumer.seek(place, bounds[place][0])  # wherever it is read from in the end
        if entries == (None, None) and not self._starts.has_begun(partition):
            return False
        partition_join = self._joins.get(partition)
        if partition_join is None or not partition_join.still_at(entries):
            self._joins.pop(partition, None)  # when somebody else has gone on, what we have is of no use
            try:
                resume, how = self._starts.resume(self._consumer, places, committed, bounds)
                try:
                    partition_join = self._join(partition, resume)
                except BadCommit as bad:
                    error = JoinRefused(f"partition {partition}: {bad}; {ways_out()}")
                    resume, how = self._starts.again(self._consumer, places, error)
                    partition_join = self._join(partition, resume)
            except JoinRefused as error:
                self._refuse(partition, str(error))
                return True
            partition_join.committed = None if None in entries else entries
            again = sum(part.processed - part.place.offset for part in (resume.impressions, resume.clicks))
            log.info("partition %d goes on from %s, after rereading %d events", partition, how, again)
        for place, one in zip(places, partition_join.logs, strict=True):
            self._consumer.seek(place, one.fetched_to)
            self._consumer.resume(place)
        return True

    def _join(self, partition: int, resume: Commit) -> PartitionJoin:
        join = SessionJoin(
            self._accept,
            wait_ms=self._wait_ms,
            lateness_ms=self._lateness_ms,
            resume=resume,
            known=self._starts.rules(),
            partition=partition,
            impressions_topic=self._topics.impressions,
            clicks_topic=self._topics.clicks,
        )
        self._refused.pop(partition, None)
        self._joins[partition] = partition_join = PartitionJoin(
            join, resume, now=self._now, append_time=self._append_time
        )
        self.watch.opened(partition, resume.ledger)
        return partition_join

    def _note_silence(self) -> None:
        """Let lists be forgotten although a log is silent: what it gets next will be of now, not of then."""
        silent = {
            partition: self._starts.inputs(partition)
            for partition, partition_join in self._joins.items()
            if any(partition_join.silent(one) for one in partition_join.logs)
        }
        if not silent:
            return
        try:
            bounds = self._consumer.bounds(chain(*silent.values()))
        except KafkaError:
            return  # not known to be at its end now; there is no hurry
        for partition, places in silent.items():
            self._joins[partition].note_silence([bounds[place][1] for place in places])

    def _commit(self) -> None:
        """Take a checkpoint of every join, and write all that is new with the offsets in one transaction."""
        most_bytes, ids = self._pace.bytes // max(1, len(self._joins)), self._starts.topic_ids
        self._with_each(lambda _, one: one.prepare(self._topics, ids, most_bytes=most_bytes))
        pending = {number: one.pending for number, one in self._joins.items() if one.pending is not None}
        if not pending:
            return
        events = self._topics.events
        if self._consumer.topic_ids(events) != dict(zip(events, self._starts.topic_ids, strict=True)):
            self._look_again_at = self._now()  # other events at these offsets; a client may just read on there
            return
        started = self._now()
        assert self._writer is not None
        offsets = dict[TopicPartition, GroupOffset]()
        for partition, one in pending.items():
            offsets |= self._offsets(partition, one.entries)
        self._writer.write(chain.from_iterable(one.records for one in pending.values()), offsets, self._member)
        self._starts.committed.update(pending)
        seconds = self._now() - started
        self._pace.took(seconds)
        record_bytes = sum(one.record_bytes for one in pending.values())
        checkpoints = {number: self._joins[number].written() for number in pending}
        self.watch.committed(checkpoints, seconds=seconds, record_bytes=record_bytes)

    def _offsets(self, partition: int, entries: Entries) -> dict[TopicPartition, GroupOffset]:
        places = self._starts.inputs(partition)
        return {place: GroupOffset(*entry) for place, entry in zip(places, entries, strict=True)}

    def _survive(self, work: Callable[[], None]) -> None:
        """Do ``work``; if Kafka fails it, look soon what is committed, and go on from there.

        What was to be committed is kept: when it has not taken effect, it is sent again as it is. Before that the group
        is heard: a member of an older generation could try for ever.
        """
        try:
            work()
            self._again_s = AGAIN_S
        except AuthorizationError:
            raise
        except KafkaError as error:
            log.warning("looks at the committed offsets again, after %r", error)
            self.watch.failed()
            self._pace.failed()
            self._drop_writer()
            self._look_again_at = self._now() + self._again_s
            self._again_s = min(2 * self._again_s, MOST_AGAIN_S)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
