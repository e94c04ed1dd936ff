"""Records of ``__consumer_offsets``, parsed: commits with their time, position and topic id (pure).

The broker keeps every commit there with the time it was made, which asking a group for its offsets does not tell: only
so can a consumer that commits without moving be told from one that has stopped.
"""

from __future__ import annotations

import struct
import uuid
from functools import lru_cache
from typing import NamedTuple

from schemas.json_text import parse_json

TOPIC = "__consumer_offsets"


class GroupPartition(NamedTuple):
    """One partition of one group."""

    group: str
    topic: str
    partition: int


class Committed(NamedTuple):
    """An offset with what stands beside it."""

    offset: int
    metadata: str = ""
    at_ms: int | None = None
    topic_id: str = ""  # "" when the broker did not note it (before Kafka 4.1)


class CommittedPosition(NamedTuple):
    """What a commit means: where its consumer has got to, and in which topic."""

    position: int
    topic_id: str = ""
    clock_ms: int | None = None  # of the log at the committed offset
    problem: str = ""


def offsets_partition_of(group: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds a group: by Java's hash of its name.

    >>> offsets_partition_of("g1", 8), offsets_partition_of("glimpse-join", 50)
    (2, 14)
    """
    code = 0
    for unit in struct.unpack(f">{len(group.encode('utf-16-be')) // 2}H", group.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def group_partition_of(key: bytes | None) -> GroupPartition | None:
    """Return whose commit a record is, or None for a record of another kind."""
    try:
        version, *_ = struct.unpack_from(">h", key or b"")
        if version not in (0, 1):
            return None
        group, at = _text(key or b"", 2)
        topic, at = _text(key or b"", at)
        return GroupPartition(group, topic, struct.unpack_from(">i", key or b"", at)[0])
    except (struct.error, UnicodeDecodeError):
        return None


def committed_of(value: bytes) -> Committed | None:
    """Return the commit of a record, or None for a version that is not known.

    >>> committed_of(bytes.fromhex("0003000000000000002affffffff0002686900000000000003e8"))
    Committed(offset=42, metadata='hi', at_ms=1000, topic_id='')
    """
    try:
        version, offset = struct.unpack_from(">hq", value)
        if not 0 <= version <= 4:
            return None
        at = 10 if version < 3 else 14  # from version 3 on a leader epoch follows
        metadata, at = _text(value, at, compact=version == 4)
        at_ms = struct.unpack_from(">q", value, at)[0]
        return Committed(offset, metadata, at_ms, _topic_id(value, at + 8) if version >= 4 else "")
    except (struct.error, ValueError, IndexError):  # ValueError: text that is none, an id cut short
        return None


@lru_cache(1 << 16)  # each commit is looked at again and again while it is in the window
def position_of(commit: Committed, *, join: bool) -> CommittedPosition:
    """Return what a commit means; the join's tells in its metadata how far beyond the offset it has processed.

    >>> position_of(Committed(5, '{"v":2,"to":9,"topic":"t","clock":1000}'), join=True)
    CommittedPosition(position=9, topic_id='t', clock_ms=1000, problem='')
    >>> position_of(Committed(5, "by hand"), join=True).problem
    "its commit carries 'by hand' and not the join's notes: was the offset set by another tool?"
    """
    if not join:
        return CommittedPosition(commit.offset, commit.topic_id)
    try:
        notes = parse_json(commit.metadata.rstrip("\0"))  # confluent-kafka ends it with a zero
        position, clock = int(notes["to"]), int(notes["clock"])
        if not (commit.offset <= position < 2**63 and -(2**63) <= clock < 2**63):
            raise ValueError("no place in a log")
        return CommittedPosition(position, str(notes["topic"] or commit.topic_id), clock if clock > 0 else None)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):  # anybody may write anything there
        metadata = f"{commit.metadata!r:.40}" if commit.metadata else "nothing"
        problem = f"its commit carries {metadata} and not the join's notes: was the offset set by another tool?"
        return CommittedPosition(commit.offset, commit.topic_id, None, problem)


def _text(data: bytes, at: int, *, compact: bool = False) -> tuple[str, int]:
    if compact:
        size, at = _varint(data, at)
        size = max(size - 1, 0)
    else:
        size, at = struct.unpack_from(">h", data, at)[0], at + 2
    if size < 0 or at + size > len(data):
        raise struct.error("text beyond the record's end")
    return data[at : at + size].decode(), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _topic_id(data: bytes, at: int) -> str:
    tags, at = _varint(data, at)
    for _ in range(tags):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        if tag == 0 and size == 16:
            return str(uuid.UUID(bytes=data[at : at + 16]))
        at += size
    return ""
