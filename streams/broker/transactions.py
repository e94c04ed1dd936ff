"""The steps of a Kafka transaction, each with an end: kafka-python waits for the broker's answer without one.

A request that is lost while the broker restarts would otherwise hold its worker for ever. After a KafkaTimeoutError
nobody knows whether the step took effect; dropping the producer and making another with the same transactional id
settles it, since its ``init_transactions`` waits for a commit that is under way and aborts whatever is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata


def send_offsets(
    producer: KafkaProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any, *, within_ms: int
) -> None:
    """Make ``offsets`` part of the transaction; it can then commit only while ``member`` is in its group."""
    _settle(producer, producer._transaction_manager.send_offsets_to_transaction(dict(offsets), member), within_ms)


def commit(producer: KafkaProducer, *, within_ms: int) -> None:
    """Commit the transaction; when this returns, it is durable."""
    _settle(producer, producer._transaction_manager.begin_commit(), within_ms)


def _settle(producer: KafkaProducer, result: Any, within_ms: int) -> None:
    producer._sender.wakeup()
    if not result.wait(timeout_ms=within_ms):
        raise KafkaTimeoutError(f"the broker did not answer within {within_ms} ms")
