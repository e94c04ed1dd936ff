"""One member of the join's group on Kafka: polls, joins and commits in transactions, until SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.errors import AuthorizationError, IllegalStateError, KafkaError, OffsetOutOfRangeError

from streams.broker import REAL_CLOCKS, BrokerPort, GroupConsumer, GroupOffset, JobClocks, KafkaBroker, require_topics
from streams.events import Acceptance
from streams.join.checkpoint import Checkpoint
from streams.join.job.partition import Entries, PartitionJoin
from streams.join.job.start import JoinRefused, parse_start, resume_from
from streams.join.job.watch import JoinWatch
from streams.join.job.writer import JoinWriter
from streams.join.session_join import SessionJoin
from streams.settings import Settings, Topics
from streams.web import Health

log = logging.getLogger(__name__)

CHECKPOINT_EVERY_S = 0.25
CHECKPOINT_BYTES = 32 << 20  # in one transaction, which must end in time however much is closed or refused at once
POLL_MS = 50
IDLE_CHECK_S, IDLE_MARGIN_MS = 5.0, 60_000
OVERHEAD_BYTES = 260  # of a list, beside its positions: id, dictionary entry and the columns of whole lists
REREAD_RATE = 40_000  # impressions a second
LEAVE_WITHIN_S = 8.0  # after SIGTERM; a kill is safe at any instant


class JoinJob:
    """One member of the join's group: polls both logs, joins what it is assigned, and commits in transactions.

    Parameters
    ----------
    settings
        Topics, buckets and times.
    broker
        Where they are.
    start
        Where a partition without a usable commit begins; None refuses to begin there.
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
        clocks: JobClocks = REAL_CLOCKS,
        stopping: threading.Event | None = None,
    ) -> None:
        self._broker, self._clocks = broker, clocks
        self._settings, self._start = settings, parse_start(start)
        self._accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
        self._wait_ms, self._lateness_ms = int(settings.wait_s * 1000), int(settings.lateness_s * 1000)
        self._topics = Topics.of(settings)
        self._ids = ("", "")
        self._writer_name = f"glimpse-join-{uuid.uuid4()}"
        self._writer: JoinWriter | None = None
        self._joins: dict[int, PartitionJoin] = {}
        self._member: Any = None  # what the group called us when it assigned the partitions
        self._checkpoint_at = self._idle_at = clocks.monotonic()
        self.stopping = stopping or threading.Event()
        self.watch = JoinWatch(self._joins, wait_s=settings.wait_s, lateness_s=settings.lateness_s)

    def run(self) -> None:
        """Join until ``stopping`` is set."""
        self.begin()
        try:
            while not self.stopping.is_set():
                self.turn()
            self.finish()
        finally:
            self.close()

    def begin(self) -> None:
        """Enter the group."""
        found = self._broker.topics(self._topics.events)
        self._ids = found[self._topics.impressions].topic_id, found[self._topics.clicks].topic_id
        self._consumer = self._broker.group_consumer("glimpse-join", self._topics.events)

    def finish(self) -> None:
        """Commit what is joined."""
        self._survive(self._commit)

    def close(self) -> None:
        """Leave the group, whatever was not committed."""
        self._drop_writer()
        self._consumer.close()

    def turn(self) -> None:
        """Poll once and do what is due."""
        self.watch.turned()
        polled: Mapping[TopicPartition, Sequence[Any]] = {}
        try:
            polled = self._consumer.poll(POLL_MS)
        except OffsetOutOfRangeError as error:
            raise JoinRefused(
                f"events that are still needed were deleted from the log ({error}): give the topics a longer "
                "retention; to go on without them, delete the group's offsets and start with --from"
            ) from error
        except AuthorizationError:
            raise
        except KafkaError as error:
            log.warning("cannot poll: %r", error)
            self.stopping.wait(0.5)
        if self._consumer.moved():
            self._survive(self._reassign)
            return  # what was polled before is fetched again
        for place, records in polled.items():
            if place.partition in self._joins:
                self._joins[place.partition].logs[place.topic == self._topics.clicks].fetched(list(records))
        for partition, partition_join in self._joins.items():
            self._look_up(partition, partition_join)
            partition_join.feed(CHECKPOINT_BYTES // len(self._joins))
            self._hold_back(partition, partition_join)
        now = self._clocks.monotonic()
        if now - self._checkpoint_at >= CHECKPOINT_EVERY_S:
            self._survive(self._commit)
            self._checkpoint_at = self._clocks.monotonic()
        if now - self._idle_at >= IDLE_CHECK_S:
            self._note_silence()
            self._idle_at = now

    def _places(self, partition: int) -> tuple[TopicPartition, TopicPartition]:
        impressions, clicks = self._topics.events
        return TopicPartition(impressions, partition), TopicPartition(clicks, partition)

    def _look_up(self, partition: int, partition_join: PartitionJoin) -> None:
        for place, one in zip(self._places(partition), partition_join.logs, strict=True):
            try:
                end = self._consumer.end(place)
                position = self._consumer.position(place)
            except IllegalStateError:  # it was taken away just now; the next turn sees to that
                return
            one.end = one.end if end is None else end
            if position is not None:
                one.passed(position)

    def _hold_back(self, partition: int, partition_join: PartitionJoin) -> None:
        """Fetch no more of a log whose records still wait for the other one."""
        for place, one in zip(self._places(partition), partition_join.logs, strict=True):
            try:
                if one.next_at() is None:
                    self._consumer.resume(place)
                else:
                    self._consumer.pause(place)
            except IllegalStateError:
                return

    def _reassign(self) -> None:
        """Keep the joins whose partitions came back untouched, drop the others, and open those that are new."""
        if self._writer is None:
            self._writer = JoinWriter(self._broker, self._writer_name, self._topics)
        # Taken before the commits are looked at: whoever takes a partition over later makes this membership stale,
        # and the broker then refuses what is committed with it.
        self._member = self._consumer.member()
        joined = self._member is not None
        assigned = {place.partition for place in self._consumer.assignment()} if joined else set()
        for partition in [*self._joins]:
            if partition not in assigned:
                log.info("partition %d went to another worker", partition)
                self._forget(partition)
        for partition in sorted(assigned):
            self._open(partition)
        self.watch.assigned = joined

    def _forget(self, partition: int) -> None:
        del self._joins[partition]
        self.watch.forget(partition)

    def _open(self, partition: int) -> None:
        places = self._places(partition)
        found = self._consumer.committed(places)
        committed: Any = found[places[0]], found[places[1]]
        partition_join = self._joins.get(partition)
        if (
            partition_join is None or partition_join.committed != committed
        ):  # when somebody else has gone on, what we have is of no use
            resume, how = resume_from(
                self._consumer, places, committed, self._ids, rules=self._accept.hash, start=self._start
            )
            join = SessionJoin(
                self._accept,
                wait_ms=self._wait_ms,
                lateness_ms=self._lateness_ms,
                resume=resume,
                partition=partition,
                impressions_topic=places[0].topic,
                clicks_topic=places[1].topic,
            )
            partition_join = self._joins[partition] = PartitionJoin(join, resume, now=self._clocks.monotonic)
            partition_join.committed = None if None in committed else committed
            self.watch.opened(partition, resume.ledger)
            again = sum(part.processed - part.place.offset for part in (resume.impressions, resume.clicks))
            log.info("partition %d goes on from %s, after rereading %d events", partition, how, again)
        for place, one in zip(places, partition_join.logs, strict=True):
            self._consumer.seek(place, one.fetched_to)
            self._consumer.resume(place)

    def _note_silence(self) -> None:
        """Let lists be forgotten although a log is silent: what it gets next will be of now, not of then."""
        if self._settings.timestamps != "LogAppendTime":
            return  # what is loaded next may be of any time
        now_ms, silent_before = self._now_ms(), self._clocks.monotonic() - IDLE_MARGIN_MS / 1000
        for partition, partition_join in self._joins.items():
            places = self._places(partition)
            if partition_join.join.rebuilding or all(one.heard_at > silent_before for one in partition_join.logs):
                continue
            try:
                bounds = self._consumer.bounds(places)
            except KafkaError:
                return  # not known to be at its end now; there is no hurry
            silent = [
                now_ms - IDLE_MARGIN_MS
                if one.at_end and one.heard_at < silent_before and one.fetched_to >= bounds[place][1]
                else None
                for place, one in zip(places, partition_join.logs, strict=True)
            ]
            partition_join.join.idle(impressions_ms=silent[0], clicks_ms=silent[1])

    def _commit(self) -> None:
        """Cut every join, and write all that is new with the offsets in one transaction."""
        now_ms, checkpoints = self._now_ms(), dict[int, Checkpoint]()
        entries: dict[int, Entries] = {}
        for partition, partition_join in self._joins.items():
            if not partition_join.join.rebuilding:
                checkpoint = partition_join.checkpoint(now_ms, most_bytes=CHECKPOINT_BYTES // len(self._joins))
                encoded = checkpoint.commit.encode(self._ids)
                if partition_join.is_due(checkpoint, encoded):
                    checkpoints[partition], entries[partition] = checkpoint, encoded
        if not checkpoints:
            return
        started = self._clocks.monotonic()
        assert self._writer is not None, "a partition is opened after the writer"
        offsets = {
            place: GroupOffset(*entry)
            for partition, both in entries.items()
            for place, entry in zip(self._places(partition), both, strict=True)
        }
        self._writer.write(checkpoints.values(), offsets, self._member)
        for partition, checkpoint in checkpoints.items():
            self._joins[partition].written(checkpoint, entries[partition])
        self.watch.committed(checkpoints, self._clocks.monotonic() - started)

    def _survive(self, work: Callable[[], None]) -> None:
        """Do ``work``; if Kafka fails it, begin again from what is committed, as often as it takes."""
        while True:
            try:
                work()
                return
            except AuthorizationError:
                raise
            except KafkaError as error:
                log.warning("begins again from the committed offsets, after %r", error)
                self.watch.failed()
                self._drop_writer()
                for partition in [*self._joins]:
                    self._forget(partition)
                if self.stopping.wait(0.5):
                    return
                work = self._reassign

    def _now_ms(self) -> int:
        return int(self._clocks.wall() * 1000)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def run_join(settings: Settings, *, start: str | None = None) -> int:
    """Join until SIGTERM or Ctrl-C; return the exit code."""
    require_topics(settings)  # before there is a log: what cannot work is said in one line
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("streams").setLevel(logging.INFO)
    job = JoinJob(settings, KafkaBroker(settings), start=start)

    def stop(number: int, frame: object) -> None:
        if not job.stopping.is_set():
            job.stopping.set()
            # While the broker is away a commit would wait for it. Leaving without one is safe: it is what a kill does.
            last = threading.Timer(LEAVE_WITHIN_S, os._exit, args=(0,))
            last.daemon = True
            last.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    log.info(costs(settings))
    watch, host, port = job.watch, settings.web_host, settings.join_web_port
    with Health(live=watch.live, ready=watch.ready, metrics=watch.metrics, host=host, port=port) as health:
        log.info("health and metrics on %s", health.url)
        job.run()
    return 0


def costs(settings: Settings) -> str:
    """Return what the join will take, in one line.

    >>> from streams.settings import Bucket
    >>> costs(Settings(buckets={"main": Bucket("main")}))
    'each 1000 impressions/s take about 1.1 GB of memory, and a restart at most 68 s: horizon 1200 s, 0.9 KB a list'
    """
    # A list of one horizon ago may have taken a click that is still needed, and so be needed itself to explain it.
    reread_s = 2 * settings.horizon_s + settings.future_s
    list_kb = max(OVERHEAD_BYTES + b.positions * (4 * b.dim + 16) for b in settings.buckets.values()) / 1000
    return (
        f"each 1000 impressions/s take about {list_kb * settings.horizon_s / 1000:.1f} GB of memory, and a restart "
        f"at most {reread_s * 1000 / REREAD_RATE:.0f} s: horizon {settings.horizon_s:g} s, {list_kb:.1f} KB a list"
    )
