"""One record of a log, and the partition that it lies in."""

from __future__ import annotations

from typing import NamedTuple


class LogRecord(NamedTuple):
    """One record as a log keeps it; kafka-python's own records have the same fields and may stand for it."""

    offset: int
    timestamp: int  # ms since 1970, of the broker (LogAppendTime) or of the producer (CreateTime)
    key: bytes | None
    value: bytes | None


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to kafka-python's, which pure code must not import."""

    topic: str
    partition: int
