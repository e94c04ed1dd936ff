"""Kafka behind the port: the client that settings name, and kafka-python's writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from streams.broker.clients import admin, transactional
from streams.broker.kafka_consumer import GroupConsumer, GroupOffset, KafkaGroupConsumer, LogConsumer
from streams.broker.topics import TopicState, describe_topics, partition_of
from streams.broker.workarounds import ask_for_topics, await_sent, finish_within, let_go
from streams.settings import Settings, SettingsError, Topics

LINGER_MS = 5_000  # a batch that is not full waits for the commit: sent at once, letters would go out a few at a time


class TransactionWriter(Protocol):
    """A producer that writes in transactions; after any error it is abandoned and another one made."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, *, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Add a record, to the partition of its key."""

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout."""


class KafkaWriter:
    """A transactional producer; making one fences any older one of its name.

    After a KafkaTimeoutError nobody knows whether the step took effect. Dropping the producer and making another with
    the same transactional id settles it: its ``init_transactions`` waits for a commit that is under way and aborts
    anything else.
    """

    def __init__(
        self, settings: Settings, name: str, *, patience_ms: int, topics: Iterable[str] = (), **options: Any
    ) -> None:
        self._patience_ms = patience_ms
        self._sent: list[Any] = []
        self._partitions: dict[tuple[str, bytes], int] = {}  # of a transaction's keys
        self._producer = transactional(settings, name, max_block_ms=patience_ms, linger_ms=LINGER_MS, **options)
        ask_for_topics(self._producer, topics)
        try:
            self._producer.init_transactions()
        except BaseException:
            self.abandon()
            raise

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent.clear()
        self._partitions.clear()
        self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        partition: int = -1,
    ) -> None:
        """Add a record, to the partition of its key unless told."""
        to = partition if partition >= 0 else self._partition_of(topic, key)
        self._sent.append(self._producer.send(topic, value, key, None, to, timestamp_ms))

    def _partition_of(self, topic: str, key: bytes | None) -> int | None:
        """Return where a key goes, which takes time to find: once in a transaction, as many letters have one key."""
        if key is None:
            return None
        if (topic, key) not in self._partitions:
            self._partitions[topic, key] = partition_of(key, len(self._producer.partitions_for(topic)))
        return self._partitions[topic, key]

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""
        given = {partition: OffsetAndMetadata(*entry, -1) for partition, entry in offsets.items()}
        self._finish("send_offsets_to_transaction", given, member)

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""
        self._finish("begin_commit")

    def _finish(self, step: str, *given: Any) -> None:
        self._producer.flush(self._patience_ms / 1000)
        await_sent(self._sent, within_s=self._patience_ms / 1000)
        self._sent.clear()
        finish_within(self._producer, step, *given, within_ms=self._patience_ms)

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout."""
        let_go(self._producer)


class BrokerPort:
    """The port to the broker that settings name: what the jobs ask of Kafka, here by kafka-python."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        """Return those of the topics that are there."""
        with admin(self._settings) as client:
            return describe_topics(client, names)

    def consumer(self) -> LogConsumer:
        """Return a reader in no group."""
        return LogConsumer(self._settings)

    def group_consumer(self, group: str, topics: Sequence[str]) -> GroupConsumer:
        """Return a new member of ``group``."""
        return KafkaGroupConsumer(self._settings, self._settings.topic_prefix + group, topics)

    def writer(self, name: str, *, patience_ms: int) -> TransactionWriter:
        """Return a writer that has fenced any older one of this name, and ended what that had begun."""
        return KafkaWriter(self._settings, name, patience_ms=patience_ms, topics=Topics.of(self._settings).of_jobs)


def open_broker(settings: Settings) -> BrokerPort:
    """Return the broker behind the client that ``settings`` name; members of a group may use different ones."""
    there = find_spec("confluent_kafka") is not None
    if settings.kafka_client == "kafka-python" or (settings.kafka_client == "auto" and not there):
        return BrokerPort(settings)
    if not there:
        raise SettingsError("kafka_client", settings.kafka_client, "needs pip install '.[fast]', in Glimpse's folder")
    broker: BrokerPort = import_module("streams.broker.confluent_broker").ConfluentBroker(settings)
    return broker
