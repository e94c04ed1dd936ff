"""Kafka behind the port, by kafka-python."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from streams.broker.clients import admin, ask_for_topics, transactional
from streams.broker.kafka_consumer import KafkaGroupConsumer, KafkaLogConsumer
from streams.broker.port import GroupConsumer, GroupOffset, TransactionWriter
from streams.broker.topics import Found, describe_topics, partition_of
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

LINGER_MS = 5_000  # a batch that is not full waits for the commit: sent at once, letters would go out a few at a time


def await_sent(futures: Iterable[Any], *, within_s: float = 30.0) -> None:
    """Raise the error of the first record that the broker did not take.

    To be called before each commit: on a stale epoch kafka-python renews itself and forgets what it has not sent.
    """
    for future in futures:
        future.get(timeout=within_s)


def was_fenced(error: BaseException) -> bool:
    """Return whether a newer writer of the same name has taken over, which kafka-python may tell only by the way."""
    kinds = ProducerFencedError | InvalidProducerEpochError
    return isinstance(error, kinds) or (isinstance(error, KafkaError) and ProducerFencedError.__name__ in str(error))


class KafkaWriter:
    """A transactional producer; making one fences any older one of its name.

    Each step has an end: kafka-python waits for the broker's answer without one, so that a request lost while the
    broker restarts would hold its worker for ever. After a KafkaTimeoutError nobody knows whether the step took effect;
    dropping the producer and making another with the same transactional id settles it, since its ``init_transactions``
    waits for a commit that is under way and aborts whatever is not.
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
        self._await_sent()
        given = {place: OffsetAndMetadata(*entry, -1) for place, entry in offsets.items()}
        self._settle(self._producer._transaction_manager.send_offsets_to_transaction(given, member))

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""
        self._await_sent()
        self._settle(self._producer._transaction_manager.begin_commit())

    def _settle(self, result: Any) -> None:
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=self._patience_ms):
            raise KafkaTimeoutError(f"the broker did not answer within {self._patience_ms} ms")

    def _await_sent(self) -> None:
        self._producer.flush(self._patience_ms / 1000)
        await_sent(self._sent, within_s=self._patience_ms / 1000)
        self._sent.clear()

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout.

        Nothing may leave any more. A plain close would first try to send what is left, fail while the broker is away,
        and leave a thread behind that comes back with it.
        """
        self._producer._sender.force_close()
        try:
            self._producer.close(timeout=1)
        except KafkaError as error:
            log.debug("a producer did not close in time: %r", error)


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
        return KafkaWriter(self._settings, name, patience_ms=patience_ms, topics=Topics.of(self._settings).of_jobs)
