"""What all owners in a process share: the topics, what is durable, and who has rolled out something."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from kafka import TopicPartition
from kafka.errors import KafkaError

from schemas.codec import SchemaError, decode
from schemas.records import Rollout
from streams.broker import BrokerPort, KafkaBroker, LogConsumer, partition_of
from streams.learn.bucket_state import Durable, SamplesPartition
from streams.learn.partition_learner import PartitionLearner
from streams.logs import SourceAway
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
        self.broker = broker or KafkaBroker(settings)
        self._reader: KafkaParameters | None = None
        self._asker: LogConsumer | None = None
        self._watch: LogConsumer | None = None
        self._rollouts: dict[str, Rollout] = {}
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
            found = self.reader
            told = dict(found.rollouts), dict(found.progress), found.topic_id
            return Durable(dict(found.snapshots), dict(found.candidates), *told)

    def rolled_out(self) -> Mapping[str, Rollout]:
        """Return the newest rollout of each bucket, as far as it has come by now."""
        with self._watching:
            try:
                for records in self._watched().poll(0).values():
                    for record in records:
                        if (record.key or b"").startswith(ROLLOUT.encode()):
                            self._take(record.value)
            except KafkaError:
                self._unwatch()  # the topic may have been made again
                raise
            return dict(self._rollouts)

    def _watched(self) -> LogConsumer:
        if self._watch is None:
            found = self.broker.topics([self.topics.parameters]).get(self.topics.parameters)
            if found is None:
                raise SourceAway(f"no topic {self.topics.parameters!r} just now")
            self._watch, parameters = self.broker.consumer(), range(found.partitions)
            self._watch.assign([TopicPartition(self.topics.parameters, number) for number in parameters])
        return self._watch

    def _unwatch(self) -> None:
        watch, self._watch, self._rollouts = self._watch, None, {}
        if watch is not None:
            watch.close()

    def _take(self, value: bytes | None) -> None:
        try:
            rollout = decode(value or b"", Rollout)
        except SchemaError:
            return  # told by the reader of all that is there
        known = self._rollouts.get(rollout.bucket)
        if known is None or known.epoch < rollout.epoch:
            self._rollouts[rollout.bucket] = rollout

    @property
    def reader(self) -> KafkaParameters:
        """The reader of the parameters topic, which goes on from where it was."""
        if self._reader is None:
            self._reader = KafkaParameters(self.settings, broker=self.broker)
        return self._reader

    @property
    def parameters_id(self) -> str:
        """The id of the parameters topic that is read."""
        return self._reader.topic_id if self._reader is not None else ""

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
            return self._asks().bounds([place])[place]

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
        place, known = self.log(), self.read()
        held: dict[str, str] = {}
        for name, bucket in self.settings.buckets.items():
            home = replace(place, partition=partition_of(bucket.learns_from, place.partitions))
            try:
                held |= PartitionLearner({name: bucket}, home, known).held
            except Hopeless as error:  # its newest snapshot cannot be read: its partition is refused alone
                held[name] = str(error)
        if held and len(held) == len(self.settings.buckets):
            raise ConfigChanged("; ".join(held.values()))

    def close(self) -> None:
        """Let go of the readers; the next read starts from the beginning."""
        for one in (self._reader, self._asker):
            if one is not None:
                one.close()
        self._reader = self._asker = None
        self._unwatch()
