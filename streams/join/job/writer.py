"""Cuts in, one Kafka transaction out: samples, dead letters, late clicks and the offsets they come from, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from schemas.codec import encode
from streams.broker import transactions
from streams.join.checkpoint import Checkpoint
from streams.logs.dead_letters import fitting
from streams.settings.settings import Settings
from streams.settings.topics import Topics

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000  # a killed join holds readers of committed records back for this long
PATIENCE_MS = 10_000


class JoinWriter:
    """The transactional producer of one join process; after any error it is dropped and another one made."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._topics = Topics.of(settings)
        self._producer = KafkaProducer(
            **settings.kafka_client(),
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=PATIENCE_MS,
            max_request_size=1 << 20,
            reconnect_backoff_max_ms=1_000,
        )
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
                sent.append(producer.send(topics.dead_letters, key=key, value=encode(fitting(letter))))
            for click in checkpoint.late_clicks:
                at = click.timestamp
                sent.append(producer.send(topics.late_clicks, key=click.key, value=click.value, timestamp_ms=at))
        for future in sent:
            # Looked at before the commit: on a stale epoch kafka-python renews itself and forgets what it has sent.
            future.get(timeout=PATIENCE_MS / 1000)
        transactions.send_offsets(producer, offsets, member, within_ms=PATIENCE_MS)
        transactions.commit(producer, within_ms=PATIENCE_MS)

    def close(self) -> None:
        """Let go of the producer; a transaction that is still open is aborted by the next one, or by its timeout."""
        # Nothing may leave any more. A plain close would first try to send what is left, fail while the broker is
        # away, and leave a thread behind that comes back with it.
        self._producer._sender.force_close()
        try:
            self._producer.close(timeout=1)
        except KafkaError as error:
            log.debug("a producer did not close in time: %r", error)
