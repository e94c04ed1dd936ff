"""The owner of one samples partition on Kafka: restores its learner and publishes each round in a transaction."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from kafka import KafkaProducer, TopicPartition

from schemas.codec import encode
from schemas.records import DeadLetter, Progress, Snapshot
from streams.broker import abandon, admin, await_sent, commit_transaction, consumer, partition_of, transactional
from streams.learn.partition_learner import PartitionLearner, SamplesPartition
from streams.logs import LogRecord, cut_to_fit
from streams.parameters import ConfigChanged, SnapshotMissing, check_config, split_snapshot
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Settings, Topics

log = logging.getLogger(__name__)

PATIENCE_MS = 15_000  # for one call to the broker; then the round is given up and made again from what is durable


class Store:
    """What all owners in a process share: the topics' names and ids, and one reader of the parameters topic."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.topics = Topics.of(settings)
        self._reader: KafkaParameters | None = None
        self._reading = Lock()

    def read(self) -> tuple[Mapping[str, Snapshot], Mapping[int, Progress]]:
        """Return the newest snapshots and progress, read to the end of the topic as it is now."""
        with self._reading:
            if self._reader is None:
                self._reader = KafkaParameters(self.settings)
            try:
                self._reader.catch_up()
            except BaseException:
                self.close()
                raise
            return dict(self._reader.snapshots), dict(self._reader.progress)

    def log(self, partition: int = 0) -> SamplesPartition:
        """Return a samples partition as it is on the broker."""
        with admin(self.settings) as client:
            [found] = client.describe_topics([self.topics.samples])
        if found["error_code"] or not found["partitions"]:
            raise SnapshotMissing(
                f"no topic {self.topics.samples!r} on Kafka at {self.settings.kafka}; create it: glimpse topics"
            )
        return SamplesPartition(self.topics.samples, str(found["topic_id"]), partition, len(found["partitions"]))

    def bounds(self, log: SamplesPartition) -> tuple[int, int]:
        """Return the first offset that a samples partition still has, and its end."""
        place = TopicPartition(log.topic, log.partition)
        asker = consumer(self.settings, isolation_level="read_uncommitted")
        try:
            return asker.beginning_offsets([place])[place], asker.end_offsets([place])[place]
        finally:
            asker.close()

    def check(self) -> None:
        """Refuse to start when a bucket's settings are not those of its newest snapshot."""
        log = self.log()
        snapshots, _ = self.read()
        for name, bucket in self.settings.buckets.items():
            snapshot = snapshots.get(name)
            if snapshot is not None and snapshot.epoch >= bucket.epoch:
                check_config(bucket, snapshot, topic_id=log.topic_id, partition=partition_of(name, log.partitions))

    def close(self) -> None:
        """Let go of the reader; the next read starts from the beginning."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


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
        self._producer: KafkaProducer | None = None

    @property
    def name(self) -> str:
        """The name by which a new owner fences the old one."""
        return f"glimpse-learn-{self.partition}"

    def restore(self) -> PartitionLearner:
        """Fence other owners, read what is durable, and return the learner as of then."""
        self.drop()
        self._producer = transactional(self.store.settings, self.name, max_block_ms=PATIENCE_MS)
        self._producer.init_transactions()  # before reading: from here on nobody else can publish this partition
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
        producer, topics = self._producer, self.store.topics
        assert producer is not None
        producer.begin_transaction()
        sent = []
        for snapshot in snapshots:
            for chunk in split_snapshot(snapshot):
                key = f"{chunk.bucket}#{chunk.chunk}" if chunk.chunk else chunk.bucket
                sent.append(producer.send(topics.parameters, key=key.encode(), value=encode(chunk)))
        key = f"@samples-{progress.samples_partition}"
        sent.append(producer.send(topics.parameters, key=key.encode(), value=encode(progress)))
        for letter in refused:
            key = f"{letter.topic}-{letter.partition}"
            sent.append(producer.send(topics.dead_letters, key=key.encode(), value=encode(cut_to_fit(letter))))
        await_sent(sent, within_s=PATIENCE_MS / 1000)
        commit_transaction(producer, within_ms=PATIENCE_MS)

    def drop(self) -> None:
        """Forget the state and the producer; a transaction that is still open is aborted by the next owner."""
        self.learner = None
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)
