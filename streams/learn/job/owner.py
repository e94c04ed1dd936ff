"""The owner of one samples partition on Kafka: restores its learner and publishes each round in a transaction."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from kafka import TopicPartition

from schemas.codec import encode
from schemas.records import DeadLetter, Progress, Snapshot
from streams.broker import BrokerPort, KafkaBroker, LogConsumer, TransactionWriter, partition_of
from streams.learn.partition_learner import PartitionLearner, SamplesPartition
from streams.logs import LogRecord, cut_to_fit
from streams.parameters import ConfigChanged, SnapshotMissing, check_config, check_stamp, split_snapshot
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Settings, Topics

log = logging.getLogger(__name__)

PATIENCE_MS = 15_000  # for one call to the broker; then the round is given up and made again from what is durable


class Store:
    """What all owners in a process share: the topics' names and ids, and one reader of the parameters topic.

    Any thread may call; readers keep what they have read when a call fails.
    """

    def __init__(self, settings: Settings, *, broker: BrokerPort | None = None) -> None:
        self.settings = settings
        self.topics = Topics.of(settings)
        self.broker = broker or KafkaBroker(settings)
        self._reader: KafkaParameters | None = None
        self._asker: LogConsumer | None = None
        self._reading, self._asking = Lock(), Lock()

    def read(self) -> tuple[Mapping[str, Snapshot], Mapping[int, Progress]]:
        """Return the newest snapshots and progress, read to the end of the topic as it is now."""
        with self._reading:
            self.reader.catch_up()
            return dict(self.reader.snapshots), dict(self.reader.progress)

    @property
    def reader(self) -> KafkaParameters:
        """The reader of the parameters topic, which goes on from where it was."""
        if self._reader is None:
            self._reader = KafkaParameters(self.settings, broker=self.broker)
        return self._reader

    def log(self, partition: int = 0) -> SamplesPartition:
        """Return a samples partition as it is on the broker."""
        found = self.broker.topics([self.topics.samples]).get(self.topics.samples)
        if found is None or not found.partitions:
            raise SnapshotMissing(
                f"no topic {self.topics.samples!r} on Kafka at {self.settings.kafka}; create it: glimpse topics"
            )
        return SamplesPartition(self.topics.samples, found.topic_id, partition, found.partitions)

    def bounds(self, log: SamplesPartition) -> tuple[int, int]:
        """Return the first offset that a samples partition still has, and its end."""
        place = TopicPartition(log.topic, log.partition)
        with self._asking:
            if self._asker is None:
                self._asker = self.broker.consumer()
            return self._asker.bounds([place])[place]

    def check(self) -> None:
        """Refuse to start when a bucket's settings are not those of its newest snapshot, or that is not the newest."""
        log = self.log()
        snapshots, progress = self.read()
        for name, bucket in self.settings.buckets.items():
            home, snapshot = partition_of(name, log.partitions), snapshots.get(name)
            at = progress.get(home)
            if at is not None and at.samples_topic_id == log.topic_id:
                check_stamp(bucket, snapshot, at.versions.get(name))
            if snapshot is not None and snapshot.epoch >= bucket.epoch:
                check_config(bucket, snapshot, topic_id=log.topic_id, partition=home)

    def close(self) -> None:
        """Let go of the readers; the next read starts from the beginning."""
        for one in (self._reader, self._asker):
            if one is not None:
                one.close()
        self._reader = self._asker = None


class PartitionOwner:
    """Learns one samples partition, and publishes each round in one transaction.

    Calls block, and never two at a time. Whatever goes wrong, ``drop`` and ``restore``: the state is then again that
    of the last committed transaction, and any other owner is fenced.

    Parameters
    ----------
    store
        What all owners of the process share.
    partition
        Number of the samples partition.
    published
        Told of each snapshot that is durable; also of those found at ``restore``.
    """

    def __init__(
        self,
        store: Store,
        partition: int,
        *,
        published: Callable[[Snapshot], None] = lambda snapshot: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.partition = store, partition
        self.learner: PartitionLearner | None = None
        self._published, self._clock = published, clock
        self._writer: TransactionWriter | None = None

    @property
    def name(self) -> str:
        """The name by which a new owner fences the old one."""
        return f"glimpse-learn-{self.partition}"

    def restore(self) -> PartitionLearner:
        """Fence other owners, read what is durable, and return the learner as of then."""
        self.drop()
        # Before reading: from here on nobody else can publish this partition.
        self._writer = self.store.broker.writer(self.name, patience_ms=PATIENCE_MS)
        log_now = self.store.log(self.partition)
        snapshots, progress = self.store.read()
        # After reading: who slept in between, while others learned on, would find them beyond an end from before.
        start, end = self.store.bounds(log_now)
        at = progress.get(self.partition)
        if at is not None and at.samples_topic_id == log_now.topic_id:
            self._check_bounds(at, start, end)
        learner = PartitionLearner(
            self.buckets(log_now.partitions), log_now, snapshots=snapshots, progress=at, log_start=start
        )
        if any(state.changed for state in learner.states.values()):
            self._publish(learner)  # buckets that are new: rankers can start, and a restart need not begin again
        for name, state in learner.states.items():
            if name in snapshots and snapshots[name].version == (state.bucket.epoch, state.stamp):
                self._published(snapshots[name])
        self.learner = learner
        return learner

    def buckets(self, partitions: int) -> dict[str, Bucket]:
        """Return the buckets whose samples are on this partition."""
        buckets = self.store.settings.buckets
        return {name: bucket for name, bucket in buckets.items() if partition_of(name, partitions) == self.partition}

    def _check_bounds(self, at: Progress, start: int, end: int) -> None:
        if at.next_offset > end:
            raise ConfigChanged(
                f"samples partition {self.partition} ends at {end}, but was learned to {at.next_offset}: the log has "
                "lost records; raise the epoch of its buckets to relearn what is left"
            )
        if at.next_offset < start:
            log.error(
                "samples partition %d: offsets %d to %d were deleted before they were learned; keep samples longer",
                *(self.partition, at.next_offset, start),
            )

    def learn(self, records: Sequence[LogRecord]) -> None:
        """Learn a round of records and publish it; when this returns, the round is durable."""
        if self.learner is None:
            raise RuntimeError(f"samples partition {self.partition} must be restored before it can learn")
        self.learner.apply(records)
        self._publish(self.learner)

    def _publish(self, learner: PartitionLearner) -> None:
        snapshots, progress, refused = learner.publish(now_ms=round(self._clock() * 1000))
        self._commit(snapshots, progress, refused)
        for snapshot in snapshots:
            self._published(snapshot)

    def _commit(self, snapshots: Iterable[Snapshot], progress: Progress, refused: Iterable[DeadLetter]) -> None:
        writer, topics = self._writer, self.store.topics
        assert writer is not None
        writer.begin()
        for snapshot in snapshots:
            for chunk in split_snapshot(snapshot):
                key = f"{chunk.bucket}#{chunk.chunk}" if chunk.chunk else chunk.bucket
                writer.send(topics.parameters, key=key.encode(), value=encode(chunk))
        writer.send(topics.parameters, key=f"@samples-{progress.samples_partition}".encode(), value=encode(progress))
        for letter in refused:
            key = f"{letter.topic}-{letter.partition}"
            writer.send(topics.dead_letters, key=key.encode(), value=encode(cut_to_fit(letter)))
        writer.commit()

    def drop(self) -> None:
        """Forget the state and the writer; a transaction that is still open is aborted by the next owner."""
        self.learner = None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
