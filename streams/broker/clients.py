"""Kafka clients, made in one way: what every one of them is given stands here, what one needs besides at its call."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import FencedInstanceIdError
from kafka.structs import MemberState

from streams.broker.unreadable import end_at_unreadable
from streams.settings import Settings

TRANSACTION_TIMEOUT_MS = 10_000  # a killed writer holds readers of committed records back for this long at most
RECORD_BYTES = 1 << 20  # the largest request of a producer, as brokers take them
BATCH_BYTES = 1_000_000  # as librdkafka's; with 16 KB, kafka-python's own, each record of samples is sent alone
_QUICK = {"reconnect_backoff_max_ms": 1_000}  # a broker that is back should not be left alone for 30 s more


def consumer(settings: Settings, **options: Any) -> KafkaConsumer:
    """Return a consumer of committed records that commits nothing and jumps nowhere by itself; in no group if not told.

    Committed also for topics that are written without transactions: only then kafka-python asks for stable offsets.
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
    end_at_unreadable(made)
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


def ask_for_topics(producer: KafkaProducer, topics: Iterable[str]) -> None:
    """Have a producer ask for topics that it will write, all at once and at its start.

    kafka-python 3.0.12 asks for each at its first record, and waits for it; within 100 ms it asks only once.
    """
    producer._metadata.set_topics(set(topics))


@contextmanager
def admin(settings: Settings, **options: Any) -> Iterator[KafkaAdminClient]:
    """Yield an admin client that gives up on a silent broker after 10 s."""
    client = admin_client(settings, **options)
    try:
        yield client
    finally:
        client.close()


def admin_client(settings: Settings, **options: Any) -> KafkaAdminClient:
    """Return an admin client for who asks again and again."""
    return KafkaAdminClient(**settings.kafka_options() | {"request_timeout_ms": 10_000} | options)


def hand_out_parked(consumer: KafkaConsumer) -> None:
    """Let a consumer go on with records of a partition that was paused half read, and is not paused any more.

    kafka-python 3.0.12 hands out what it parked of a paused partition only while this is None, and never makes it None
    again, so that such a partition would stay silent for ever. What is in its place and paused itself it parks too late
    for that, and then waits for the broker although it has records.
    """
    fetcher = consumer._fetcher
    waiting = fetcher._next_partition_records
    if waiting and consumer._subscription.is_paused(waiting.topic_partition):
        fetcher._paused_partition_records[waiting.topic_partition] = waiting
        waiting = None
    if not waiting:
        fetcher._next_partition_records = None


def keep_assignment(consumer: KafkaConsumer) -> None:
    """Let a consumer take the assignment that came between two polls.

    kafka-python 3.0.12 would throw it away and ask for another, so that the whole group shares its partitions again.
    """
    coordinator, untaken = consumer._coordinator, None
    ask = coordinator._do_join_and_sync_async

    async def take_or_ask() -> Any:
        nonlocal untaken
        if untaken is None or coordinator.state is not MemberState.REBALANCING:  # it is stable once it has taken one
            untaken = None
            untaken = await ask()
        return untaken

    coordinator._do_join_and_sync_async = take_or_ask


def end_joining(consumer: KafkaConsumer, *, within_ms: int) -> None:
    """Wait for the end of a rebalance that is under way.

    One that new metadata has caused kafka-python 3.0.12 forgets between two polls: it would send no heartbeat any more,
    and stay without partitions.
    """
    coordinator = consumer._coordinator
    if coordinator.rejoining:
        coordinator.rejoin_needed = True
        coordinator.poll(timeout_ms=within_ms)


def replaced(consumer: KafkaConsumer) -> threading.Event:
    """Return what is set once another member has taken the name of this static one.

    kafka-python 3.0.12 then ends its heartbeats and says so in its log alone, and would poll on for ever.
    """
    coordinator, found = consumer._coordinator, threading.Event()
    ask = coordinator._send_heartbeat_request

    async def ask_and_note() -> Any:
        try:
            return await ask()
        except FencedInstanceIdError:
            found.set()
            raise

    coordinator._send_heartbeat_request = ask_and_note
    return found
