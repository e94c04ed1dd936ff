"""The steps of a Kafka transaction, each with an end: kafka-python waits for the broker's answer without one.

A request that is lost while the broker restarts would otherwise hold its worker for ever. After a KafkaTimeoutError
nobody knows whether the step took effect; dropping the producer and making another with the same transactional id
settles it, since its ``init_transactions`` waits for a commit that is under way and aborts whatever is not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

log = logging.getLogger(__name__)


def send_offsets(
    producer: KafkaProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any, *, within_ms: int
) -> None:
    """Make ``offsets`` part of the transaction; it can then commit only while ``member`` is in its group."""
    _settle(producer, producer._transaction_manager.send_offsets_to_transaction(dict(offsets), member), within_ms)


def commit_transaction(producer: KafkaProducer, *, within_ms: int) -> None:
    """Commit the transaction; when this returns, it is durable."""
    _settle(producer, producer._transaction_manager.begin_commit(), within_ms)


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


def abandon(producer: KafkaProducer) -> None:
    """Let go of a producer at once; a transaction that is still open is aborted by the next one, or by its timeout.

    Nothing may leave any more. A plain close would first try to send what is left, fail while the broker is away, and
    leave a thread behind that comes back with it.
    """
    producer._sender.force_close()
    try:
        producer.close(timeout=1)
    except KafkaError as error:
        log.debug("a producer did not close in time: %r", error)


def _settle(producer: KafkaProducer, result: Any, within_ms: int) -> None:
    producer._sender.wakeup()
    if not result.wait(timeout_ms=within_ms):
        raise KafkaTimeoutError(f"the broker did not answer within {within_ms} ms")
