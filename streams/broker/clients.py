"""Kafka clients, made in one way: what every one of them is given stands here, what one needs besides at its call."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

from streams.broker.workarounds import parse_records, read_wide
from streams.settings import Settings

TRANSACTION_TIMEOUT_MS = 10_000  # a killed writer holds readers of committed records back for this long at most
RECORD_BYTES = 1 << 20  # the largest request of a producer, as brokers take them
BATCH_BYTES = 1_000_000  # as librdkafka's; with 16 KB, kafka-python's own, each record of samples is sent alone
_QUICK = {"reconnect_backoff_max_ms": 1_000}  # a broker that is back should not be left alone for 30 s more


def consumer(settings: Settings, *, headers: bool = False, **options: Any) -> KafkaConsumer:
    """Return a consumer of committed records that commits nothing and jumps nowhere by itself; in no group if not told.

    Its records are ``Fetched``, or with ``headers`` those of kafka-python. Committed also for topics that are written
    without transactions: only then kafka-python asks for stable offsets.
    """
    usual = {
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": 8 << 20,  # eight times as fast as with the default
        "max_poll_records": 4_000,
        "fetch_max_wait_ms": 100,  # a broker that is asked for logs at their end is asked for no others meanwhile
    }
    made = KafkaConsumer(**_QUICK | settings.kafka_options() | usual | options)
    parse_records(made, headers=headers)
    read_wide(made)
    return made


def producer(settings: Settings, **options: Any) -> KafkaProducer:
    """Return a producer whose records are acknowledged by all replicas in sync."""
    usual = {"acks": "all", "enable_idempotence": True, "max_request_size": RECORD_BYTES}
    return KafkaProducer(**_QUICK | settings.kafka_options() | usual | options)


def transactional(settings: Settings, name: str, **options: Any) -> KafkaProducer:
    """Return a producer that writes in transactions, and whose name fences any older one of that name."""
    usual = {
        "transactional_id": settings.topic_prefix + name,
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "batch_size": BATCH_BYTES,
    }
    return producer(settings, **usual | options)


def admin(settings: Settings) -> closing[KafkaAdminClient]:
    """Return an admin client for as long as a ``with`` lasts."""
    return closing(admin_client(settings))


def admin_client(settings: Settings, **options: Any) -> KafkaAdminClient:
    """Return an admin client that gives up on a silent broker after 10 s, for anyone who asks again and again."""
    return KafkaAdminClient(**settings.kafka_options() | {"request_timeout_ms": 10_000} | options)
