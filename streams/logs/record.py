"""One record of a log, and the partition that it lies in."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple


class LogRecord(NamedTuple):
    """One record as a log keeps it; kafka-python's own records have the same fields and may stand for it."""

    offset: int
    timestamp: int  # ms since 1970, of the broker (LogAppendTime) or of the producer (CreateTime)
    key: bytes | None
    value: bytes | None


_KEY, _VALUE = attrgetter("key"), attrgetter("value")


def record_bytes(records: Sequence[LogRecord]) -> int:
    """Return the bytes of all keys and values.

    >>> record_bytes([LogRecord(0, 0, b"key", b"value"), LogRecord(1, 0, None, None)])
    8
    """
    return sum(map(len, filter(None, map(_KEY, records)))) + sum(map(len, filter(None, map(_VALUE, records))))


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to kafka-python's, which pure code must not import."""

    topic: str
    partition: int
