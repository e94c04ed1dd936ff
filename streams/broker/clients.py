"""Kafka clients, made in one way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.admin import KafkaAdminClient

from streams.settings.settings import Settings


@contextmanager
def admin(settings: Settings) -> Iterator[KafkaAdminClient]:
    """Yield an admin client that gives up on a silent broker after 10 s."""
    client = KafkaAdminClient(**settings.kafka_client(), request_timeout_ms=10_000)
    try:
        yield client
    finally:
        client.close()
