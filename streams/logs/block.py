"""One record of a log, and a block: many records as one Avro record, columns around untouched payloads."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fastavro.schema import load_schema
from numpy.typing import NDArray

import schemas
from schemas.strict import SchemaError, Walk

SCHEMA: Any = load_schema(str(Path(schemas.__file__).with_name("log_block.avsc")))
_KINDS = ("<i8", "<i8", "<i4", "<i4")  # of offsets, time stamps, and the sizes of keys and values


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


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Consecutive records of one partition; reading goes on at ``next_offset``."""

    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    key_sizes: NDArray[np.int32]
    value_sizes: NDArray[np.int32]
    keys: bytes
    values: bytes
    next_offset: int

    @classmethod
    def of(cls, records: Sequence[LogRecord], next_offset: int | None = None) -> LogBlock:
        """Return ``records`` as a block; without ``next_offset``, reading goes on after the last.

        >>> block = LogBlock.of([LogRecord(3, 17, b"k", None), LogRecord(5, 18, None, b"v")])
        >>> block.next_offset, block.records()[1]
        (6, LogRecord(offset=5, timestamp=18, key=None, value=b'v'))
        """
        keys, values = [record.key for record in records], [record.value for record in records]
        offsets = np.array([record.offset for record in records], "<i8")
        return cls(
            offsets=offsets,
            timestamps_ms=np.array([record.timestamp for record in records], "<i8"),
            key_sizes=np.array([-1 if key is None else len(key) for key in keys], "<i4"),
            value_sizes=np.array([-1 if value is None else len(value) for value in values], "<i4"),
            keys=b"".join([key for key in keys if key is not None]),
            values=b"".join([value for value in values if value is not None]),
            next_offset=(int(offsets[-1]) + 1 if records else 0) if next_offset is None else next_offset,
        )

    @classmethod
    def concat(cls, blocks: Sequence[LogBlock]) -> LogBlock:
        """Return consecutive blocks as one."""
        keys, values = b"".join([block.keys for block in blocks]), b"".join([block.values for block in blocks])
        columns = zip(*(block._numbers() for block in blocks), strict=True)
        offsets, times, key_sizes, value_sizes = map(np.concatenate, columns)
        return cls(offsets, times, key_sizes, value_sizes, keys, values, blocks[-1].next_offset)

    def __len__(self) -> int:
        return len(self.offsets)

    def records(self) -> list[LogRecord]:
        """Return the records one by one."""
        keys, values = _cut(self.keys, self.key_sizes), _cut(self.values, self.value_sizes)
        return list(map(LogRecord, self.offsets.tolist(), self.timestamps_ms.tolist(), keys, values))

    def part(self, start: int, stop: int) -> LogBlock:
        """Return the records from ``start`` to ``stop``; the last part goes on where the whole does."""
        if (start, stop) == (0, len(self)):
            return self
        next_offset = self.next_offset if stop == len(self) else int(self.offsets[stop])
        return LogBlock.of(self.records()[start:stop], next_offset)

    def encode(self) -> bytes:
        """Return the block as one Avro value."""
        columns = [*(column.tobytes() for column in self._numbers()), self.keys, self.values]
        sized = [part for column in columns for part in (zigzag(len(column)), column)]
        return b"".join([*sized, zigzag(self.next_offset), zigzag(_crc(columns, self.next_offset))])

    def _numbers(self) -> tuple[NDArray[Any], ...]:
        return self.offsets, self.timestamps_ms, self.key_sizes, self.value_sizes

    @classmethod
    def decode(cls, data: bytes) -> LogBlock:
        """Return the block that ``encode`` wrote, or raise SchemaError when a byte of it is another."""
        walk = Walk(data, 0)
        columns = []
        try:
            for _ in range(6):
                start = walk.skip(walk.varint())
                columns.append(data[start : walk.at])
            next_offset, crc = walk.varint(), walk.varint()
        except IndexError:
            raise SchemaError(f"the block ends in the middle of a value, after {len(data)} bytes") from None
        if walk.at != len(data) or crc != _crc(columns, next_offset):
            raise SchemaError("the block's bytes are not those that its checksum was made of")
        try:
            offsets, times, key_sizes, value_sizes = map(np.frombuffer, columns[:4], _KINDS)
        except ValueError as error:
            raise SchemaError(f"a column of the block is no row of numbers: {error}") from error
        block = cls(offsets, times, key_sizes, value_sizes, columns[4], columns[5], next_offset)
        block._check()
        return block

    def _check(self) -> None:
        offsets, keys, values = self.offsets, self.key_sizes, self.value_sizes
        if not len(offsets) == len(self.timestamps_ms) == len(keys) == len(values):
            raise SchemaError("the columns of the block are not of as many records each")
        for name, sizes, blob in (("keys", keys, self.keys), ("values", values, self.values)):
            if sizes.min(initial=0) < -1 or int(np.maximum(sizes, 0).sum(dtype=np.int64)) != len(blob):
                raise SchemaError(f"the sizes of the {name} do not add up to their {len(blob)} bytes")
        if len(offsets) and (offsets[0] < 0 or (np.diff(offsets) <= 0).any() or offsets[-1] >= self.next_offset):
            raise SchemaError(f"offsets must rise from 0 and stay below {self.next_offset}")


def _cut(blob: bytes, sizes: NDArray[np.int32]) -> list[bytes | None]:
    ends = list(accumulate(np.maximum(sizes, 0).tolist()))
    parts: list[bytes | None] = [blob[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for index in np.flatnonzero(sizes < 0).tolist():
        parts[index] = None
    return parts


def _crc(columns: Sequence[bytes], next_offset: int) -> int:
    crc = 0
    for column in columns:
        crc = zlib.crc32(column, crc)
    return zlib.crc32(str(next_offset).encode(), crc)


def zigzag(number: int) -> bytes:
    """Return a whole number as Avro writes it.

    >>> zigzag(-1), zigzag(300)
    (b'\\x01', b'\\xd8\\x04')
    """
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
