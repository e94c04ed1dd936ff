"""One member of the join's group: polls both logs, joins what it is assigned, and commits in transactions."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
    JobClocks,
    JobMemory,
    UnreadableBatch,
)
from streams.events import EventReader
from streams.join.commit import Commit
from streams.join.job.owner import Bounds, JoinOwner
from streams.join.job.starts import UNREADABLE, WAYS_OUT, CommittedNow, JoinRefused, Starts
from streams.join.job.watch import JoinWatch
from streams.join.job.writer import JoinWriter, Pace
from streams.join.session_join import SessionJoin
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

CHECKPOINT_EVERY_S = 0.25
POLL_MS = 50
MAINTAIN_EVERY_S = 5.0
MANY_BEHIND = 10_000  # records to be read, whose buffers are worth giving back
AGAIN_S, MOST_AGAIN_S = 0.5, 5.0  # to the next look after an error, and after many
ONE_NAME_EACH = "give each join process a group_instance_id of its own"


class JoinJob:
    """One member of the join's group.

    Parameters
    ----------
    start
        Start position for the first run. None: refuse to start. Of no effect afterwards.
    anew
        Whether ``start`` also applies to partitions whose commit cannot be used.
    stopping
        What is set to end the job.
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
        self._settings, self._broker, self._now = settings, broker, clocks.monotonic
        self._topics, self._reader = Topics.of(settings), EventReader.of(settings)
        # By its own name a static member ends at once what it was killed in, instead of waiting for that to time out.
        self._writer_name = f"glimpse-join-{settings.group_instance_id or uuid.uuid4()}"
        self._writer: JoinWriter | None = None
        self._pace, self._again_s = Pace(), AGAIN_S
        self._memory, self._backlog = JobMemory(), JobMemory(few=MANY_BEHIND)  # of lists, and of what was fetched
        self._starts = Starts(broker, self._topics, start=start, anew=anew, now=self._now)
        self._owners: dict[int, JoinOwner] = {}  # of each partition that was ever assigned
        self._look_again_at: float | None = None  # at all of them, after an error of the transaction that they share
        self._member: Any = None  # what the group called us when it assigned the partitions
        self._checkpoint_at = self._maintained_at = self._now()
        self.stopping = stopping or threading.Event()
        times = {"wait_s": settings.wait_s, "lateness_s": settings.lateness_s}
        self.watch = JoinWatch(self._owners, self._topics.events, **times)

    def run(self) -> None:
        """Join until ``stopping`` is set."""
        self.begin()
        try:
            while not self.stopping.is_set():
                self.turn()
            self.finish()
        except FencedInstanceIdError as error:  # were both to go on, they would take the partitions from each other
            name = self._settings.group_instance_id
            raise JoinRefused(f"another join is called {name!r}, and has taken over; {ONE_NAME_EACH}") from error
        finally:
            self.close()

    def begin(self) -> None:
        """Enter the group."""
        self._consumer = self._broker.group_consumer("glimpse-join", self._topics.events)

    def finish(self) -> None:
        """Commit what is joined."""
        if self._writer is not None and self._member is not None:
            self._survive(self._checkpoint)

    def close(self) -> None:
        """Leave the group, whatever was not committed."""
        self._drop_writer()
        self._starts.close()
        self._consumer.close()

    def turn(self) -> None:
        """Poll, feed, checkpoint, maintain: each when it is due."""
        self.watch.turned()
        polled = self._poll()
        now = self._now()
        if self._consumer.moved() or self._must_look(now):
            self._survive(self._reassign)
            return  # what was polled before is fetched again
        if self._writer is None or self._member is None:
            return  # nothing is assigned, or what is committed is not known: then too
        self._feed(polled)
        if now - self._checkpoint_at >= CHECKPOINT_EVERY_S:
            self._survive(self._checkpoint)
            self._checkpoint_at = self._now()
        if now - self._maintained_at >= MAINTAIN_EVERY_S:
            self._maintain()
            self._maintained_at = now

    def _must_look(self, now: float) -> bool:
        """Return whether what is committed must be looked at again."""
        if self._look_again_at is not None:
            return now >= self._look_again_at
        return any(owner.due for owner in self._owners.values())

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

    def _feed(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Give what was polled to the owners."""
        owners = self.watch.joined.values()
        logs = {log.source: log for owner in owners for log in owner.logs}
        for source, records in polled.items():
            if source in logs:
                logs[source].fetched(list(records))
        most_bytes = self._most_bytes()
        self._with_each(lambda owner: owner.feed(self._consumer, most_bytes))
        owners = self.watch.joined.values()
        self._memory.holds(sum(len(owner.join) for owner in owners))
        self._backlog.holds(sum(sum(owner.behind) for owner in owners))

    def _most_bytes(self) -> int:
        """Return the share of a transaction that each partition has."""
        return self._pace.bytes // max(1, len(self.watch.joined))

    def _with_each(self, work: Callable[[JoinOwner], None]) -> None:
        """Do ``work`` with each owner; what fails with one of them, whatever it is, stops it alone."""
        for number, owner in self.watch.joined.items():
            try:
                work(owner)
            except IllegalStateError:  # it was taken away just now; the next turn sees to that
                continue
            except Exception as error:
                log.exception("partition %d", number)
                self._refuse_all([owner.inputs.impressions], f"cannot be joined: {error!r}")

    def _reassign(self) -> None:
        """Keep the owners whose partitions came back untouched, close the others, and open those that are new."""
        # Taken before the commits are looked at: whoever takes a partition over later makes this membership stale,
        # and the broker then refuses what is committed with it.
        self._member, self._look_again_at, self.watch.assigned = self._consumer.member(), None, False
        if self._member is None:
            return  # the group says more soon
        if self._writer is None:
            self._writer = JoinWriter(self._broker, self._writer_name, last=self._topics.samples)
        sources = self._consumer.assignment()
        numbers = {source.partition for source in sources}
        if gone := self.watch.joined.keys() - numbers:
            log.info("partitions %s went to another worker", sorted(gone))
        made_anew = self._starts.look()
        for number, owner in self._owners.items():
            if made_anew or number not in numbers:
                owner.close()
                self.watch.figures.forget(number)
        assigned = [number for number in sorted(numbers) if sources.issuperset(self._owner(number).inputs)]
        if 0 in assigned:
            self._starts.decide(self._consumer, self._writer, self._member)
        self._starts.read()
        inputs = [source for number in assigned for source in self._owner(number).inputs]
        committed, bounds = self._consumer.committed(inputs), self._consumer.bounds(inputs)
        for source in sources:
            if source.partition not in assigned:  # somebody has added partitions to one of the two topics
                self._consumer.seek(source, 0)
                self._refuse(
                    source.partition,
                    f"only {source.topic} has a partition {source.partition}: give the other topic as many "
                    "(kafka-topics.sh --alter --partitions); the other partitions go on",
                )
        waiting = [number for number in assigned if not self._open(number, committed, bounds)]
        self.watch.assigned = not waiting

    def _owner(self, number: int) -> JoinOwner:
        if number not in self._owners:
            append_time = self._settings.timestamps == "LogAppendTime"
            self._owners[number] = JoinOwner(self._starts.inputs(number), now=self._now, append_time=append_time)
        return self._owners[number]

    def _refuse(self, number: int, why: str) -> None:
        """Leave a partition alone, and go on with the others."""
        log.error("not joined: %s", why)
        owner = self._owner(number)
        owner.refuse(why)
        self.watch.figures.forget(number)
        for source in self._consumer.assignment().intersection(owner.inputs):
            with suppress(IllegalStateError):  # it was taken away just now
                self._consumer.pause(source)

    def _refuse_all(self, sources: Iterable[TopicPartition], why: str) -> None:
        """Leave these partitions alone for a while."""
        for source in sources:
            self._refuse(source.partition, f"partition {source.partition} of {source.topic}: {why}; {WAYS_OUT}")

    def _open(self, number: int, committed: CommittedNow, bounds: Bounds) -> bool:
        """Have a partition joined from where it stands, or refuse it; return whether it has begun."""
        owner = self._owner(number)
        entries = owner.inputs.map(committed.__getitem__)
        for source in owner.inputs:
            self._consumer.seek(source, bounds[source][0])  # wherever it is read from in the end
        if entries == (None, None) and not self._starts.has_begun(number):
            owner.wait()
            return False
        if not (owner.is_open and owner.still_at(entries)):
            owner.close()  # when somebody else has gone on, what we have is of no use
            try:
                self._resume(owner, committed, bounds)
            except JoinRefused as error:
                self._refuse(number, str(error))
                return True
        owner.read_on(self._consumer)
        return True

    def _resume(self, owner: JoinOwner, committed: CommittedNow, bounds: Bounds) -> None:
        """Open a partition from its commit, or from where it begins again."""
        number = owner.number

        def open_join(resume: Commit) -> SessionJoin:
            rules, topics = self._starts.rules(), self._topics.events
            return SessionJoin.of(
                self._settings, self._reader, resume=resume, known=rules, partition=number, topics=topics
            )

        join, resume, how = self._starts.resume(
            self._consumer, owner.inputs, committed, bounds, open_join, has_written=owner.has_written
        )
        self.watch.figures.opened(number, resume.ledger)
        again = sum(part.processed - part.restart.offset for part in resume.logs)
        log.info("partition %d goes on from %s, after rereading %d events", number, how, again)
        owner.open(join, resume, owner.inputs.map(committed.__getitem__))

    def _maintain(self) -> None:
        """Have lists forgotten whose logs are silent, and memory given back."""
        silent = [owner for owner in self.watch.joined.values() if owner.silent]
        with suppress(KafkaError):  # not known to be at its end now; there is no hurry
            bounds = self._consumer.bounds([source for owner in silent for source in owner.inputs]) if silent else {}
            for owner in silent:  # what a silent log gets next will be of now, not of then
                owner.maintain(bounds)
        if not self._memory.give_back():
            self._backlog.give_back()

    def _checkpoint(self) -> None:
        """Take a checkpoint of every partition, and write all that is new with the offsets in one transaction."""
        most_bytes, ids = self._most_bytes(), self._starts.topic_ids
        self._with_each(lambda owner: owner.checkpoint(self._topics, ids, most_bytes=most_bytes))
        pending = {owner: owner.pending for owner in self._owners.values() if owner.pending is not None}
        if not pending:
            return
        now_there = self._consumer.topic_ids(self._topics.events)
        if self._topics.events.map(now_there.get) != ids:
            self._look_again_at = self._now()  # other events at these offsets; a client may just read on there
            return
        started = self._now()
        assert self._writer is not None
        offsets = {source: offset for owner in pending for source, offset in owner.offsets().items()}
        records = [record for checkpoint in pending.values() for record in checkpoint.records]
        self._writer.write(records, offsets, self._member)
        seconds = self._now() - started
        self._pace.took(seconds)
        written = {owner.number: owner.written() for owner in pending}
        record_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self.watch.committed(written, seconds=seconds, record_bytes=record_bytes)

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
            self.watch.figures.failed()
            self._pace.failed()
            self._drop_writer()
            self._look_again_at = self._now() + self._again_s
            self._again_s = min(2 * self._again_s, MOST_AGAIN_S)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
