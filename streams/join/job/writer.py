"""Checkpoints as Kafka transactions: all that they hold and the offsets it comes from, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import TopicPartition

from schemas.codec import encode
from streams.broker import BrokerPort, GroupOffset
from streams.join.checkpoint import Checkpoint
from streams.logs import cut_to_fit
from streams.settings import Topics

PATIENCE_MS = 10_000


class JoinWriter:
    """The transactional producer of one join process; after any error it is dropped and another one made."""

    def __init__(self, broker: BrokerPort, name: str, topics: Topics) -> None:
        self._topics = topics
        self._writer = broker.writer(name, patience_ms=PATIENCE_MS)

    def write(
        self, checkpoints: Iterable[Checkpoint], offsets: Mapping[TopicPartition, GroupOffset], member: Any
    ) -> None:
        """Write ``checkpoints`` and commit ``offsets``, which only takes effect while ``member`` is in the group."""
        writer, topics = self._writer, self._topics
        writer.begin()
        for checkpoint in checkpoints:
            for batch in checkpoint.samples:
                writer.send(topics.samples, key=batch.bucket.encode(), value=encode(batch))
            for letter in checkpoint.dead_letters:
                key = f"{letter.topic}-{letter.partition}".encode()
                writer.send(topics.dead_letters, key=key, value=encode(cut_to_fit(letter)))
            for click in checkpoint.late_clicks:
                writer.send(topics.late_clicks, key=click.key, value=click.value, timestamp_ms=click.timestamp)
        writer.send_offsets(offsets, member)
        writer.commit()

    def close(self) -> None:
        """Let go of the producer; a transaction that is still open is aborted by the next one, or by its timeout."""
        self._writer.abandon()
