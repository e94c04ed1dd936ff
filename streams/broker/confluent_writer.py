"""confluent-kafka's transactional producer behind the port."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from streams.broker.clients import RECORD_BYTES, TRANSACTION_TIMEOUT_MS
from streams.broker.confluent_options import client_options, confluent_place, errors_of_the_port
from streams.broker.port import GroupOffset
from streams.settings import Settings


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
        give_up_at = time.monotonic() + self._patience_s
        while True:
            try:
                with errors_of_the_port():
                    self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms or 0)
                self._producer.poll(0)
                return
            except BufferError:  # its queue is full: let some go
                self._producer.poll(0.1)
                if time.monotonic() > give_up_at:
                    raise KafkaTimeoutError(f"records were not taken within {self._patience_s:g} s") from None

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""
        given = [confluent_place(place, *entry) for place, entry in offsets.items()]
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
