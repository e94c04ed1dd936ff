"""Kafka behind the port, with the flow of events through confluent-kafka, which is an extra."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import TopicPartition
from kafka.errors import (
    FencedInstanceIdError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    SaslAuthenticationFailedError,
    for_code,
)

from streams.broker.clients import RECORD_BYTES, TRANSACTION_TIMEOUT_MS
from streams.broker.kafka_broker import BrokerPort, TransactionWriter
from streams.broker.kafka_consumer import METADATA_MS, SESSION_MS, GroupConsumer, GroupOffset
from streams.broker.lean_records import Fetched, UnreadableBatch
from streams.settings import Settings

log = logging.getLogger(__name__)

MOST_RECORDS = 4_000  # of one poll
MOST_PARKED = 20_000  # records of a paused partition that are kept here; then the client fetches no more of it
MOST_PARKED_BYTES = 16 << 20  # in the last 4,000 of them
_UNREADABLE = (ConfluentError._BAD_MSG, ConfluentError._BAD_COMPRESSION, ConfluentError._NOT_IMPLEMENTED)
_LOST = (ConfluentError._AUTO_OFFSET_RESET, ConfluentError._LOG_TRUNCATION)
_FENCED = (ConfluentError._FENCED, ConfluentError.INVALID_PRODUCER_EPOCH, ConfluentError.PRODUCER_FENCED)
_OF_ITS_OWN = {  # errors that no broker has sent, which kafka-python knows by other names
    ConfluentError._TIMED_OUT: KafkaTimeoutError,
    ConfluentError._MSG_TIMED_OUT: KafkaTimeoutError,
    ConfluentError._TIMED_OUT_QUEUE: KafkaTimeoutError,
    ConfluentError._TRANSPORT: KafkaConnectionError,
    ConfluentError._ALL_BROKERS_DOWN: KafkaConnectionError,
    ConfluentError._AUTHENTICATION: SaslAuthenticationFailedError,
    ConfluentError._FATAL: FencedInstanceIdError,  # of a consumer, which has no other fatal error
}


def client_options(settings: Settings) -> dict[str, Any]:
    """Return what every client of confluent-kafka must be given."""
    options = {
        "bootstrap.servers": settings.kafka,
        "security.protocol": settings.kafka_security,
        "reconnect.backoff.max.ms": 1_000,  # a broker that is back should not be left alone for 10 s more
        "logger": logging.getLogger("confluent_kafka"),
        "sasl.mechanism": settings.kafka_sasl if "SASL" in settings.kafka_security else None,
        "sasl.username": settings.kafka_username,
        "sasl.password": settings.kafka_password,
        "ssl.ca.location": settings.kafka_ca,
        "ssl.certificate.location": settings.kafka_cert,
        "ssl.key.location": settings.kafka_key,
        "ssl.key.password": settings.kafka_key_password,
    }
    return {key: value for key, value in options.items() if value is not None}


def confluent_partition(log: TopicPartition, offset: int = OFFSET_INVALID, metadata: str = "") -> ConfluentPartition:
    """Return a partition as confluent-kafka is told it."""
    return ConfluentPartition(log.topic, log.partition, offset, metadata)


@contextmanager
def errors_of_the_port() -> Iterator[None]:
    """Raise what confluent-kafka raises as the error of kafka-python that the jobs know."""
    try:
        yield
    except KafkaException as error:
        raise as_port_error(error.args[0]) from error


def as_port_error(error: Any) -> KafkaError:
    """Return the error of kafka-python that says the same."""
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code in _FENCED:
        return ProducerFencedError(words)
    if code > 0:  # a number of the protocol
        return for_code(code)(words)
    return _OF_ITS_OWN.get(code, KafkaError)(words)


class ConfluentWriter:
    """A transactional producer; making one fences any older one of its name, whichever client that was."""

    def __init__(self, settings: Settings, name: str, *, patience_ms: int) -> None:
        self._patience_s = patience_ms / 1000
        options = {
            "transactional.id": settings.topic_prefix + name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.max.bytes": RECORD_BYTES,
            "linger.ms": 0,  # a commit waits for all of them
            "partitioner": "murmur2_random",  # as kafka-python and Java do
            "queue.buffering.max.messages": 2_000_000,
        }
        with errors_of_the_port():
            self._producer = Producer(client_options(settings) | options)
            self._producer.init_transactions(self._patience_s)

    def begin(self) -> None:
        """Begin a transaction."""
        with errors_of_the_port():
            self._producer.begin_transaction()

    def send(self, topic: str, *, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Add a record, to the partition of its key."""
        give_up_at = time.monotonic() + self._patience_s
        while True:
            try:
                with errors_of_the_port():
                    self._producer.produce(topic, value, key, timestamp=timestamp_ms or 0)
                self._producer.poll(0)
                return
            except BufferError:  # its queue is full: let some go
                self._producer.poll(0.1)
                if time.monotonic() > give_up_at:
                    raise KafkaTimeoutError(f"records were not taken within {self._patience_s:g} s") from None

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""
        given = [confluent_partition(partition, *entry) for partition, entry in offsets.items()]
        with errors_of_the_port():
            self._producer.send_offsets_to_transaction(given, member, self._patience_s)

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""
        with errors_of_the_port():
            self._producer.commit_transaction(self._patience_s)

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout."""
        self._producer.purge(blocking=False)
        del self._producer  # nothing is sent any more


class ConfluentGroupConsumer(GroupConsumer):
    """A member of a group; what is asked of the broker now and then goes through kafka-python.

    confluent-kafka 2.16.1 drops what it has fetched of a partition when that is paused, and refuses to seek in one that
    it has not begun to fetch. So records of a paused partition are parked here, and it is given partitions only
    together with the offsets that they are read from.
    """

    def __init__(self, settings: Settings, group: str, topics: Sequence[str]) -> None:
        # Named, so that kafka-python reads its commits: confluent-kafka 2.16.1 takes their metadata to end with a zero,
        # which it alone writes, and reads on into other memory.
        super().__init__(settings, group_id=group)
        options = {
            "group.id": group,
            "partition.assignment.strategy": "range",  # others may split two logs of one partition
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,  # tells where it stands beyond markers
            "check.crcs": True,
            "fetch.message.max.bytes": 8 << 20,
            "queued.min.messages": 3 * MOST_RECORDS,
            "queued.max.messages.kbytes": 16 << 10,
            "fetch.queue.backoff.ms": 10,  # confluent-kafka 2.16.1 looks away for a second once its queue is full
        }
        if settings.group_instance_id is not None:
            options["group.instance.id"] = settings.group_instance_id
        self._assigned: dict[tuple[str, int], TopicPartition] = {}  # what is assigned
        self._next: dict[TopicPartition, int] = {}  # where each is read from
        self._ends: dict[TopicPartition, int] = {}  # as far as there is nothing but markers behind what came
        self._parked: dict[TopicPartition, list[Fetched]] = {}
        self._paused: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()  # paused in the client too
        self._sought = self._joined = False
        with errors_of_the_port():
            self._member_of = Consumer(client_options(settings) | options)
            # both are called within a poll
            self._member_of.subscribe(list(topics), on_assign=self._on_assign, on_revoke=lambda *_: self._hold([]))

    def _on_assign(self, member: Consumer, assigned: list[Any]) -> None:
        member.assign([])  # nothing is fetched until somebody has said from where
        self._hold([TopicPartition(partition.topic, partition.partition) for partition in assigned])
        self._joined = True
        # confluent-kafka 2.16.1 does not tell the generation
        log.info("the group gives partitions %s", sorted({partition.partition for partition in assigned}))

    def _hold(self, partitions: list[TopicPartition]) -> None:
        self._assigned = {partition: partition for partition in partitions}
        self._paused, self._moved, self._sought, self._joined = set(partitions), True, False, False
        for kept in (self._next, self._ends, self._parked, self._stopped):
            kept.clear()

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came; none while a partition has no offset to be read from."""
        with errors_of_the_port():
            if self._sought:
                self._member_of.assign([confluent_partition(*entry) for entry in self._next.items()])
                self._sought = False
                self._stopped.clear()
            batches = self._taken(self._member_of.consume(MOST_RECORDS, timeout_ms / 1000))
            full = {partition for partition in self._paused - self._stopped if self._is_full(partition)}
            wanted = self._stopped - self._paused
            if full:
                self._member_of.pause([confluent_partition(partition) for partition in full])
            if wanted:
                self._member_of.resume([confluent_partition(partition) for partition in wanted])
            self._stopped = (self._stopped | full) - wanted
        return batches

    def _taken(self, messages: list[Any]) -> dict[TopicPartition, list[Fetched]]:
        """Return the records of partitions that are not paused; the others are parked."""
        make, find, parked, errors = tuple.__new__, self._assigned.get, self._parked, []
        for message in messages:
            partition = find((message.topic(), message.partition()))
            error = message.error()
            if error is not None:
                errors.append((partition, error, message.offset()))
            elif partition is not None:
                row = message.offset(), message.timestamp()[1], message.key(), message.value()
                parked.setdefault(partition, []).append(make(Fetched, row))
        for partition, error, offset in errors:
            if partition is not None and error.code() == ConfluentError._PARTITION_EOF:
                self._ends[partition] = offset
        self._tell(errors)
        batches = {partition: parked.pop(partition) for partition in [*parked] if partition not in self._paused}
        for partition, records in batches.items():
            self._next[partition] = records[-1].offset + 1
        for partition in self._ends.keys() - parked.keys():
            self._next[partition] = max(self._next[partition], self._ends[partition])
        return batches

    @staticmethod
    def _tell(errors: list[Any]) -> None:
        """Raise what is wrong; of batches that cannot be read all at once, for librdkafka goes on behind them."""
        unreadable = [failure for failure in errors if failure[0] is not None and failure[1].code() in _UNREADABLE]
        if unreadable:
            first = {partition: offset for partition, _, offset in reversed(unreadable)}
            raise UnreadableBatch(first, "; ".join(error.str() for _, error, _ in unreadable))
        lost = {log: offset for log, error, offset in errors if log is not None and error.code() in _LOST}
        if lost:  # of all of them: librdkafka says it once, and fetches no more
            raise OffsetOutOfRangeError(lost)
        for _, error, _ in errors:
            if error.code() != ConfluentError._PARTITION_EOF:
                raise as_port_error(error)

    def _is_full(self, partition: TopicPartition) -> bool:
        records = self._parked.get(partition, [])
        size = sum(len(record.value or b"") for record in records[-MOST_RECORDS:])
        return len(records) > MOST_PARKED or size > MOST_PARKED_BYTES

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member has."""
        return set(self._assigned.values())

    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None during a rebalance.

        A member joins anew only after it was told within a poll that its partitions are gone.
        """
        return self._member_of.consumer_group_metadata() if self._joined else None

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset that is read next, beyond markers, if it is known."""
        self._require(partition)
        return self._next.get(partition)

    def end(self, partition: TopicPartition) -> int | None:
        """Return the log's end as the broker last told with a fetch."""
        self._require(partition)
        with errors_of_the_port():
            bounds = self._member_of.get_watermark_offsets(confluent_partition(partition), cached=True)
        return int(bounds[1]) if bounds is not None and bounds[1] >= 0 else None

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at ``offset``."""
        self._require(partition)
        self._next[partition], self._sought = offset, True
        for kept in (self._ends, self._parked):
            kept.clear()  # all are assigned anew, from where they stand

    def pause(self, partition: TopicPartition) -> None:
        """Fetch no more of a partition."""
        self._require(partition)
        self._paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        """Fetch a partition again."""
        self._require(partition)
        self._paused.discard(partition)

    def _require(self, partition: TopicPartition) -> None:
        if partition not in self._assigned:
            raise IllegalStateError(f"{partition} is not assigned")

    def close(self) -> None:
        """Let go of connections, and leave the group."""
        self._member_of.close()
        super().close()


class ConfluentBroker(BrokerPort):
    """The broker that settings name."""

    def group_consumer(self, group: str, topics: Sequence[str]) -> GroupConsumer:
        """Return a new member of ``group``."""
        return ConfluentGroupConsumer(self._settings, self._settings.topic_prefix + group, topics)

    def writer(self, name: str, *, patience_ms: int) -> TransactionWriter:
        """Return a writer that has fenced any older one of this name, and ended what that had begun."""
        return ConfluentWriter(self._settings, name, patience_ms=patience_ms)
