"""The owner of one samples partition: what was read of it, what is pending, what is learned, and why it is refused."""

import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from kafka import TopicPartition

from schemas.records import Rollout, Snapshot
from streams.broker import (
    REAL_CLOCKS,
    JobClocks,
    LogConsumer,
    TransactionWriter,
    UnreadableBatch,
    partition_of,
    was_fenced,
)
from streams.learn.bucket_state import within_bounds
from streams.learn.job.metrics import LearnWatch
from streams.learn.job.pending import PendingRecords
from streams.learn.job.store import Store
from streams.learn.partition_learner import PartitionLearner, Round
from streams.logs import LogRecord
from streams.parameters import Hopeless, overruled
from streams.settings import Bucket

log = logging.getLogger(__name__)

PATIENCE_MS = 15_000  # for one call to the broker; then the round is given up and made again from what is durable
CATCH_UP_BYTES = 16 << 20  # of records in one round behind the head, for which the head waits
CATCH_UP_POLLS = 10
REFUSED_WAIT_S = 30.0  # until a refused partition is tried again; the other partitions go on
UNREADABLE_WAIT_S = 10.0  # to the next try to read a damaged batch
FENCED_WAIT_S = 3.0  # longer than a heartbeat: a fenced worker first hears from the group who owns the partition

Seek = Callable[[int, int], None]  # (partition, offset); raises NotAssigned


class NotAssigned(LookupError):
    """A partition that the group has given to another worker, or to nobody yet."""


class PartitionOwner:
    """Learns one samples partition, and publishes each round in one transaction.

    Its reader feeds ``pending``, from another thread. ``checkpoint``, ``maintain`` and ``close`` block, one at a time.
    After any error the learner is dropped, and ``maintain`` restores it from the last committed transaction, which
    fences any other owner. ``seek`` sends the reader to an offset; ``watch`` hears of each snapshot and round that is
    durable.
    """

    def __init__(
        self,
        store: Store,
        partition: int,
        *,
        seek: Seek,
        watch: LearnWatch | None = None,
        clocks: JobClocks = REAL_CLOCKS,
    ) -> None:
        self.store, self.partition = store, partition
        self.learner: PartitionLearner | None = None
        self.newest: dict[str, Snapshot] = {}  # durable snapshots of its buckets
        self.refused = ""  # why it is not learned at the moment
        self.waits_until = 0.0  # by the monotonic clock
        self.pending = PendingRecords()
        self._reads = False  # whether the reader was sent to where the learner is
        self.outdated = ""  # why the next ``maintain`` must restore the learner
        self._closed = False
        self._seek, self._clocks, self._watch = seek, clocks, watch or LearnWatch()
        self._working = Lock()
        self._writer: TransactionWriter | None = None
        self._parameters_id = ""
        self._second: LogConsumer | None = None  # reads behind the head

    @property
    def name(self) -> str:
        """The name by which a new owner fences the old one."""
        return f"glimpse-learn-{self.partition}"

    @property
    def position(self) -> int | None:
        """The next offset to learn; None until the partition is restored."""
        learner = self.learner  # another thread may drop it
        return None if learner is None else learner.next_offset

    @property
    def ready(self) -> bool:
        """Whether the partition is restored, and read from where its learner is."""
        return self._reads and self.learner is not None

    @property
    def behind(self) -> bool:
        """Whether something is learned behind the head of the log."""
        learner = self.learner
        return learner is not None and bool(learner.behind)

    @property
    def due(self) -> bool:
        """Whether ``maintain`` has something to do now."""
        busy = not self.ready or bool(self.outdated) or self.behind
        return busy and not self._closed and self._clocks.monotonic() >= self.waits_until

    def lags(self, fetched_to: int | None, end: int | None) -> bool:
        """Return whether there are records to learn, by how far the reader is and where the log ends.

        While the partition is not read, all that its learner does not have counts, markers included.
        """
        position, read_to = self.position, self.pending.read_to
        if position is None or read_to is None:
            return end is not None and end > (position or 0)
        return read_to > position or (fetched_to is not None and end is not None and end > fetched_to)

    def hold(self) -> None:
        """Forget what was read: the group has assigned again, and the reader must be sent to the position again."""
        self.pending.seek(None)
        self._reads = False

    def lost(self, why: str) -> None:
        """Restore the learner: the log does not have the record that its reader asked for."""
        log.warning("samples partition %d is made again from what is durable: %s", self.partition, why)
        self._reads, self.refused, self.outdated = False, why, why

    def wait(self, why: str) -> None:
        """Read on only in a while: the next batch is damaged. What is pending is learned."""
        log.error(
            "samples partition %d waits: %s; it is tried again every %g s", self.partition, why, UNREADABLE_WAIT_S
        )
        self._reads, self.refused = False, why
        self.waits_until = self._clocks.monotonic() + UNREADABLE_WAIT_S

    def checkpoint(self, up_to: int) -> None:
        """Learn what is pending up to an offset and publish it; what fails is read again later."""
        if self.learner is None or self._closed:
            return  # at once: ``maintain`` may take long to restore it, and the other partitions go on
        with self._working:
            if self.learner is None or self.outdated or self._closed:
                return  # once it is restored, the reader is sent back to these records
            records = self.pending.take(up_to, position=self.learner.next_offset)
            if records and not self._round(lambda learner: learner.apply(records)):
                return
            if self._reads and self.pending.missing(self.learner.next_offset):
                log.info("samples partition %d: records are missing, reading again", self.partition)
                self._watch.count("gaps")
                self._reads = False
                self._send_reader()

    def maintain(self) -> None:
        """Restore what is not restored, send the reader to the position, and learn some of what is behind."""
        with self._working:
            if not self.due:
                return
            if self.outdated:
                log.info("samples partition %d is restored again: %s", self.partition, self.outdated)
                self._drop()
            if self.learner is None:
                try:
                    self.restore()
                except Exception as error:
                    self._give_up(error)
                    return
            if not self._reads:
                self._send_reader()
            elif self.behind:
                try:
                    records, read_to = self._read_behind()
                except UnreadableBatch as error:  # nothing was learned yet, and the head need not wait
                    log.error("samples partition %d does not catch up: %s", self.partition, error)
                    self.waits_until = self._clocks.monotonic() + UNREADABLE_WAIT_S
                except Exception as error:
                    self._give_up(error)
                else:
                    self._round(lambda learner: learner.catch_up(records, read_to=read_to), head=False)

    def close(self) -> None:
        """Drop the learner once its round has ended, and learn no more."""
        self._closed = True
        with self._working:
            self._drop()

    def _send_reader(self) -> None:
        if self._closed:  # while it was restored; another owner may have the reader now
            return
        assert self.learner is not None
        self._reads = True  # before the seek, so that a hold after it is not overlooked
        try:
            self._seek(self.partition, self.learner.next_offset)
            self.refused = ""
        except NotAssigned:  # a rebalance is under way
            self._reads = False
        except Exception as error:
            self._give_up(error)

    def _round(self, work: Callable[[PartitionLearner], None], *, head: bool = True) -> bool:
        """Learn and publish; return whether that is durable."""
        learner = self.learner
        assert learner is not None
        began, before = self._clocks.monotonic(), learner.counts.copy()
        try:
            work(learner)
            if head or any(state.changed or state.stamp >= learner.next_offset for state in learner.behind.values()):
                self._publish(learner)
        except Exception as error:  # whatever it is, the state may now differ from what is durable
            self._give_up(error)
            return False
        seconds = self._clocks.monotonic() - began if head else None
        self._watch.learned(self.partition, learner.counts - before, seconds=seconds)
        return True

    def _give_up(self, error: Exception) -> None:
        """Drop the learner; ``maintain`` restores it."""
        hopeless = isinstance(error, Hopeless)
        wait_s = REFUSED_WAIT_S if hopeless else FENCED_WAIT_S if was_fenced(error) else 0.0
        self.waits_until = self._clocks.monotonic() + wait_s
        self.refused = repr(error)
        level = logging.ERROR if hopeless else logging.WARNING
        log.log(level, "samples partition %d is made again from what is durable: %r", self.partition, error)
        self._drop()

    def restore(self) -> PartitionLearner:
        """Fence other owners, read what is durable, and return the learner as of then."""
        self._drop()
        # Before reading: from here on nobody else can publish this partition.
        self._writer = self.store.broker.writer(self.name, patience_ms=PATIENCE_MS)
        log_now = self.store.log(self.partition)
        known = self.store.read()
        self._parameters_id = known.topic_id
        # After reading: who slept in between, while others learned on, would find them beyond an end from before.
        start, end = self.store.bounds(log_now)
        buckets = self.buckets(log_now.partitions)
        known = within_bounds(known, log_now, buckets, start=start, end=end)
        learner = PartitionLearner(buckets, log_now, known, log_start=start)
        self._say(learner, buckets)
        self._published(known.snapshots[name] for name in buckets if name in known.snapshots)
        if any(state.changed for state in [*learner.states.values(), *learner.behind.values()]):
            self._publish(learner)  # buckets that are new: rankers can start, and a restart need not begin again
        self.learner = learner
        log.info("samples partition %d is restored to offset %d", self.partition, learner.next_offset)
        self._watch.count("restored")
        return learner

    @staticmethod
    def _say(learner: PartitionLearner, buckets: Mapping[str, Bucket]) -> None:
        for name, bucket in buckets.items():
            if name in learner.held:
                log.error("%s", learner.held[name])
            elif (warning := overruled(bucket, learner.known.rollouts.get(name))) is not None:
                log.warning("%s", warning)
        for name, state in learner.behind.items():
            until = "the older one goes on" if name in learner.states else "nothing else of it is learned"
            way = f"beside the head of the log, from offset {state.stamp} of {learner.next_offset}; {until} until then"
            log.info("bucket %r: epoch %d is learned %s", name, state.bucket.epoch, way)

    def buckets(self, partitions: int) -> dict[str, Bucket]:
        """Return the buckets whose samples are on this partition."""
        buckets = self.store.settings.buckets.items()
        return {
            name: bucket for name, bucket in buckets if partition_of(bucket.learns_from, partitions) == self.partition
        }

    def take_up(self, rollouts: Mapping[str, Rollout]) -> None:
        """Restart if a bucket was rolled out after it was restored, or if the parameters topic was recreated."""
        learner = self.learner
        if learner is None:
            return
        known = learner.known.rollouts
        newer = [
            name
            for name, rollout in sorted(rollouts.items())
            if name in learner.buckets and (name not in known or known[name].epoch < rollout.epoch)
        ]
        if newer:
            self.outdated = f"a rollout of {', '.join(newer)}"
        elif self.store.parameters_id not in ("", self._parameters_id):
            self.outdated = "the parameters topic was recreated"

    def _read_behind(self) -> tuple[list[LogRecord], int]:
        """Return records from where the first bucket behind the head stands, and the offset that they reach to."""
        learner = self.learner
        assert learner is not None
        assert learner.behind_from is not None
        start = read_to = learner.behind_from
        partition, records, size = TopicPartition(learner.log.topic, self.partition), list[LogRecord](), 0
        if self._second is None:
            self._second = self.store.broker.consumer()
            self._second.assign([partition])
        if self._second.position(partition) != start:
            self._second.seek(partition, start)
        for _ in range(CATCH_UP_POLLS):
            polled = self._second.poll(100).get(partition, ())
            records += [LogRecord(record.offset, record.timestamp, record.key, record.value) for record in polled]
            size += sum(len(record.value or b"") for record in polled)
            read_to = self._second.position(partition) or start
            if not polled or size > CATCH_UP_BYTES or read_to >= learner.next_offset:
                break
        return records, read_to

    def _published(self, snapshots: Iterable[Snapshot]) -> None:
        for snapshot in snapshots:
            self.newest[snapshot.bucket] = snapshot
            self._watch.published(snapshot)

    def _publish(self, learner: PartitionLearner) -> None:
        made = learner.publish(now_ms=round(self._clocks.wall() * 1000))
        self._commit(made)
        self._published(made.snapshots)
        for name in made.promoted:
            log.info("bucket %r: epoch %d has caught up and serves now", name, learner.states[name].bucket.epoch)

    def _commit(self, made: Round) -> None:
        writer, topics = self._writer, self.store.topics
        assert writer is not None
        # Clients read on at the same offset in another topic of the same name, and write on in it.
        known = {topics.samples: made.progress.samples_topic_id, topics.parameters: self._parameters_id}
        anew = [name for name, now in self.store.topic_ids().items() if now != known[name]]
        if anew:
            raise LookupError(f"{' and '.join(anew)} was made anew: what is there is not what was learned")
        writer.begin()
        for topic, key, value in made.records(topics):
            writer.send(topic, key=key, value=value)
        writer.commit()

    def _drop(self) -> None:
        """Forget the learner, the writer and what is pending; the next owner aborts a transaction that is open."""
        self.learner, self._reads, self.outdated = None, False, ""
        self.pending.seek(None)  # else all that is read until it is restored would be kept
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
        second, self._second = self._second, None
        if second is not None:
            second.close()
