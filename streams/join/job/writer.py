"""Checkpoints as Kafka transactions: all that they hold and the offsets it comes from, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from schemas.codec import encode
from streams.broker import abandon, await_sent, commit_transaction, send_offsets, transactional
from streams.join.checkpoint import Checkpoint
from streams.logs import cut_to_fit
from streams.settings import Settings, Topics

PATIENCE_MS = 10_000


class JoinWriter:
    """The transactional producer of one join process; after any error it is dropped and another one made."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._topics = Topics.of(settings)
        self._producer = transactional(settings, name, max_block_ms=PATIENCE_MS)
        try:
            self._producer.init_transactions()  # ends what an earlier writer of this process has left open
        except BaseException:
            self.close()
            raise

    def write(
        self, checkpoints: Iterable[Checkpoint], offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any
    ) -> None:
        """Write ``checkpoints`` and commit ``offsets``, which only takes effect while ``member`` is in the group."""
        producer, topics = self._producer, self._topics
        producer.begin_transaction()
        sent = []
        for checkpoint in checkpoints:
            sent += [producer.send(topics.samples, key=b.bucket.encode(), value=encode(b)) for b in checkpoint.samples]
            for letter in checkpoint.dead_letters:
                key = f"{letter.topic}-{letter.partition}".encode()
                sent.append(producer.send(topics.dead_letters, key=key, value=encode(cut_to_fit(letter))))
            for click in checkpoint.late_clicks:
                at = click.timestamp
                sent.append(producer.send(topics.late_clicks, key=click.key, value=click.value, timestamp_ms=at))
        await_sent(sent, within_s=PATIENCE_MS / 1000)
        send_offsets(producer, offsets, member, within_ms=PATIENCE_MS)
        commit_transaction(producer, within_ms=PATIENCE_MS)

    def close(self) -> None:
        """Let go of the producer; a transaction that is still open is aborted by the next one, or by its timeout."""
        abandon(self._producer)
