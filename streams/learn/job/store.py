"""What all owners in a process share: the topics, what is durable, and who has rolled out something."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from kafka import TopicPartition
from kafka.errors import KafkaError

from schemas.records import Rollout
from streams.broker import BrokerPort, LogConsumer, partition_of
from streams.learn.bucket_state import Durable, SamplesPartition
from streams.learn.partition_learner import PartitionLearner
from streams.parameters import ROLLOUT, ConfigChanged, Hopeless, SnapshotMissing
from streams.parameters.job import KafkaParameters
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)


class Store:
    """What all owners in a process share: the topics' names and ids, and one reader of the parameters topic.

    Any thread may call; readers keep what they have read when a call fails.
    """

    def __init__(self, settings: Settings, *, broker: BrokerPort | None = None) -> None:
        self.settings = settings
        self.topics = Topics.of(settings)
        self.broker = broker or BrokerPort(settings)
        self._reader: KafkaParameters | None = None
        self._asker: LogConsumer | None = None
        self._watch: KafkaParameters | None = None  # of rollouts alone
        self._reading, self._asking, self._watching = Lock(), Lock(), Lock()

    def read(self) -> Durable:
        """Return the newest of what was published, read to the end of the topic as it is now."""
        with self._reading:
            if self._reader is not None and self.topic_ids().get(self.topics.parameters) != self._reader.topic_id:
                log.error("%s was made anew: what is there now is read from its beginning", self.topics.parameters)
                self._reader.close()
                self._reader = None
                with self._watching:
                    self._unwatch()
            self.reader.catch_up()
            reader = self.reader
            told = dict(reader.rollouts), dict(reader.progress), reader.topic_id
            return Durable(dict(reader.snapshots), dict(reader.candidates), *told)

    def rolled_out(self) -> Mapping[str, Rollout]:
        """Return the newest rollout of each bucket, as far as it has come by now."""
        with self._watching:
            try:
                if self._watch is None:
                    self._watch = KafkaParameters(self.settings, broker=self.broker, keys=ROLLOUT)
                self._watch.poll()
            except KafkaError:
                self._unwatch()  # the topic may have been made again
                raise
            return dict(self._watch.rollouts)

    def _unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    @property
    def reader(self) -> KafkaParameters:
        """The reader of the parameters topic, which goes on from where it was."""
        if self._reader is None:
            self._reader = KafkaParameters(self.settings, broker=self.broker)
        return self._reader

    @property
    def parameters_id(self) -> str:
        """The id of the parameters topic that is read; empty before that."""
        return "" if self._reader is None else self._reader.topic_id

    def log(self, partition: int = 0) -> SamplesPartition:
        """Return a samples partition as it is on the broker."""
        state = self.broker.topics([self.topics.samples]).get(self.topics.samples)
        if state is None or not state.partitions:
            raise SnapshotMissing(
                f"no topic {self.topics.samples!r} on Kafka at {self.settings.kafka}; create it: glimpse topics"
            )
        return SamplesPartition(self.topics.samples, state.topic_id, partition, state.partitions)

    def bounds(self, log: SamplesPartition) -> tuple[int, int]:
        """Return the first offset that a samples partition still has, and its end."""
        topic_partition = TopicPartition(log.topic, log.partition)
        with self._asking:
            return self._asks().bounds([topic_partition])[topic_partition]

    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids of samples and parameters as they are there now."""
        with self._asking:
            return self._asks().topic_ids([self.topics.samples, self.topics.parameters])

    def _asks(self) -> LogConsumer:
        if self._asker is None:
            self._asker = self.broker.consumer()
        return self._asker

    def check(self) -> None:
        """Refuse to start when no bucket can be learned as it is set."""
        samples_partition, known = self.log(), self.read()
        held: dict[str, str] = {}
        for name, bucket in self.settings.buckets.items():
            home = replace(samples_partition, partition=partition_of(bucket.learns_from, samples_partition.partitions))
            try:
                held |= PartitionLearner({name: bucket}, home, known).held
            except Hopeless as error:  # its newest snapshot cannot be read: its partition is refused alone
                held[name] = str(error)
        if held and len(held) == len(self.settings.buckets):
            raise ConfigChanged("; ".join(held.values()))

    def close(self) -> None:
        """Let go of the readers; the next read starts from the beginning."""
        for reader in (self._reader, self._asker):
            if reader is not None:
                reader.close()
        self._reader = self._asker = None
        self._unwatch()
