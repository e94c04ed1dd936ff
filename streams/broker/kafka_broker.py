"""Kafka behind the port, by kafka-python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from streams.broker.clients import admin, transactional
from streams.broker.kafka_consumer import KafkaGroupConsumer, KafkaLogConsumer
from streams.broker.port import GroupConsumer, GroupOffset, TransactionWriter
from streams.broker.topics import Found, describe_topics
from streams.broker.transactions import abandon, await_sent, commit_transaction, send_offsets
from streams.settings import Settings


class KafkaWriter:
    """A transactional producer; making one fences any older one of its name."""

    def __init__(self, settings: Settings, name: str, *, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._sent: list[Any] = []
        self._producer = transactional(settings, name, max_block_ms=patience_ms)
        try:
            self._producer.init_transactions()
        except BaseException:
            self.abandon()
            raise

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent.clear()
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
        to = partition if partition >= 0 else None
        self._sent.append(self._producer.send(topic, value, key, None, to, timestamp_ms))

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""
        self._await_sent()
        given = {place: OffsetAndMetadata(*entry, -1) for place, entry in offsets.items()}
        send_offsets(self._producer, given, member, within_ms=self._patience_ms)

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""
        self._await_sent()
        commit_transaction(self._producer, within_ms=self._patience_ms)

    def _await_sent(self) -> None:
        await_sent(self._sent, within_s=self._patience_ms / 1000)
        self._sent.clear()

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout."""
        abandon(self._producer)


class KafkaBroker:
    """The broker that settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def topics(self, names: Iterable[str]) -> Mapping[str, Found]:
        """Return those of the topics that are there."""
        with admin(self._settings) as client:
            return describe_topics(client, names)

    def consumer(self) -> KafkaLogConsumer:
        """Return a reader in no group."""
        return KafkaLogConsumer(self._settings)

    def group_consumer(self, group: str, topics: Sequence[str]) -> GroupConsumer:
        """Return a new member of ``group``."""
        return KafkaGroupConsumer(self._settings, self._settings.topic_prefix + group, topics)

    def writer(self, name: str, *, patience_ms: int) -> TransactionWriter:
        """Return a writer that has fenced any older one of this name, and ended what that had begun."""
        return KafkaWriter(self._settings, name, patience_ms=patience_ms)
