"""Record batches as rows of offset, time stamp, key and value, in place of kafka-python's own records.

kafka-python 3.0.12 takes 10 µs for a record, most of it for thirteen fields that no job looks at, and unpacks what is
compressed without a bound. Batches of format 2 are read here by the same rules, but for headers, which are passed over:
their names may be any bytes, which the library refuses. Any other batch goes the library's way. One that came as it was
written and cannot be read, or is too large unpacked, has records without a value in its place: who wrote it must not
stop its readers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from gzip import GzipFile
from io import BytesIO
from itertools import islice
from operator import ge
from typing import Any, NamedTuple

from kafka import codec
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, KafkaError, UnsupportedCodecError

log = logging.getLogger(__name__)

FAR_MS = 1 << 62  # a batch's time and a record's may add up to more than a stamp holds
MOST_STAMP = (1 << 63) - 1
MOST_POLL_BYTES = 32 << 20  # of batches that one poll hands out, unpacked, about
MOST_BATCH_BYTES = 32 << 20  # of one batch, unpacked; the broker bounds it packed, at 1 MB
PIECE_BYTES = 1 << 18


class Fetched(NamedTuple):
    """One record as a reader gets it; it has the fields of a LogRecord, and may stand for it."""

    offset: int
    timestamp: int  # ms since 1970
    key: bytes | None
    value: bytes | None


def lean_rows(batch: Any) -> list[tuple[int, int, bytes | None, bytes | None]] | None:
    """Return (offset, time stamp, key, value) of every record of a batch, or None when it is not of the common kind."""
    if batch.magic != 2 or batch._next_record_index:
        return None
    unpack(batch)
    data, at = bytes(batch._buffer), batch._pos
    base, stamp = batch.base_offset, batch.first_timestamp
    append_time = batch.max_timestamp if batch.timestamp_type else None
    if not -FAR_MS < stamp < FAR_MS:
        return None
    rows, last = [], -1
    try:
        for _ in range(batch.records_count):
            number = data[at]
            at += 1  # numbers of one and of two bytes are read here: a call for each would be a fifth of all
            if number > 127:
                if (more := data[at]) < 128:
                    number += (more << 7) - 128
                    at += 1
                else:
                    number, at = _longer(data, at, number)
            end = at + (number >> 1)
            flags, later = data[at], data[at + 1]  # no attribute is in use
            at += 2
            if later > 127:
                if (more := data[at]) < 128:
                    later += (more << 7) - 128
                    at += 1
                else:
                    later, at = _longer(data, at, later)
            delta = data[at]
            at += 1
            if delta > 127:
                if (more := data[at]) < 128:
                    delta += (more << 7) - 128
                    at += 1
                else:
                    delta, at = _longer(data, at, delta)
            key = value = None
            size = data[at]
            at += 1
            if size != 1:
                if size > 127:
                    size, at = _longer(data, at, size)
                flags |= size & 1
                key = data[at : at + (size >> 1)]
                at += size >> 1
            size = data[at]
            at += 1
            if size != 1:
                if size > 127:
                    if (more := data[at]) < 128:
                        size += (more << 7) - 128
                        at += 1
                    else:
                        size, at = _longer(data, at, size)
                flags |= size & 1
                value = data[at : at + (size >> 1)]
                at += size >> 1
            if flags or (number | delta) & 1 or at >= end or delta <= last:  # negative sizes; headers are passed over
                return None
            at, last = end, delta
            moment = stamp + ((later >> 1) ^ -(later & 1)) if append_time is None else append_time
            rows.append((base + (delta >> 1), moment, key, value))
    except IndexError:
        return None
    return rows if at == len(data) and last >> 1 <= batch.last_offset_delta else None


def _longer(data: bytes, at: int, number: int) -> tuple[int, int]:
    """Return a varint of several bytes, still zigzagged, and what comes behind it; not in place if it has over four."""
    for shift in (7, 14, 21):
        byte = data[at]
        at += 1
        number += (byte - 1) << shift  # without the mark of the byte before
        if byte < 128:
            return number, at
    raise IndexError("a number of more than four bytes")


def unpack(batch: Any) -> None:
    """Unpack a batch, up to a bound: what is compressed may be a thousand times as large, and more."""
    if batch._decompressed or not batch.compression_type:
        return
    kind = batch.compression_type
    batch._assert_has_codec(kind)
    data = bytes(memoryview(batch._buffer)[batch._pos :])
    if kind == batch.CODEC_SNAPPY:
        unpacked = codec.snappy_decode(data)  # at most 21 times as large
    elif kind == batch.CODEC_GZIP:
        unpacked = _bounded(GzipFile(fileobj=BytesIO(data)))
    elif kind == batch.CODEC_LZ4:
        unpacked = _bounded(codec.lz4.open(BytesIO(data)))
    else:
        unpacked = _bounded(codec.zstd.ZstdDecompressor().stream_reader(data, read_across_frames=True))
    batch._buffer, batch._pos, batch._decompressed = unpacked, 0, True


def _bounded(reader: Any) -> bytes:
    pieces, size = list[bytes](), 0
    while piece := reader.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BATCH_BYTES:
            raise CorruptRecordError(f"more than {MOST_BATCH_BYTES} bytes, unpacked")
    return b"".join(pieces)


class UnreadableBatch(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """Batches that cannot be read: the first argument has the offset of each by its partition, the second says why."""

    def __str__(self) -> str:
        offsets, why = self.args
        named = [f"partition {log.partition} of {log.topic} at offset {offset}" for log, offset in offsets.items()]
        return f"cannot read {' and '.join(named)}: {why}"


class WholePartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python has no types
    """What one fetch brought of a partition as the library's records, up to a batch that cannot be read."""

    enough = False  # whether the last call took as many bytes as one poll may hand out

    def take(self, n: int | None = None) -> list[Any]:
        """Return up to ``n`` records."""
        records = list[Any]()
        try:
            records.extend(self._next_records(n))
        except Exception as error:  # of a codec, too
            self.drain()
            if not records:  # else the next fetch brings it again
                raise UnreadableBatch({self.topic_partition: self.next_fetch_offset}, repr(error)) from error
        return records

    def _next_records(self, n: int | None) -> Iterator[Any]:
        return islice(self.record_iterator, n)


class LeanPartitionRecords(WholePartitionRecords):
    """What one fetch brought of a partition as ``Fetched`` records, made of batches in a way of its own."""

    _room = MOST_POLL_BYTES

    def take(self, n: int | None = None) -> list[Any]:
        """Return the next records, up to ``n``, and of no more batches once they make as many bytes as one poll may."""
        self._room = MOST_POLL_BYTES
        records = super().take(n)
        self.enough = self._room <= 0
        return records

    def _next_records(self, n: int | None) -> Iterator[Any]:
        return islice(iter(self.record_iterator.__next__, None), n)

    def _maybe_skip_record(self, record: Any) -> bool:
        return record is None or record[0] < self.fetch_offset

    def _unpack_records(self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[Any]:
        make = tuple.__new__
        while (batch := records.next_batch()) is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"the batch of {tp} at offset {batch.base_offset} failed its crc check")
            if batch.magic == 2 and self._hidden(batch):
                self.next_fetch_offset = batch.next_offset
                continue
            if self._room <= 0:
                yield None  # the end of a poll
            rows = self._rows(batch)
            self._room -= len(batch._buffer)
            for row in rows:
                self.records_read += 1
                self.next_fetch_offset = row[0] + 1
                yield make(Fetched, row)
            if batch.magic == 2:  # its last records may have been compacted away
                self.next_fetch_offset = batch.next_offset
                self.bytes_read += batch.size_in_bytes
        self.drain()

    def _hidden(self, batch: Any) -> bool:
        """Return whether a batch is a marker, or of a transaction that was aborted."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level and batch.has_producer_id():  # 1: committed records only
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)

    def _rows(self, batch: Any) -> Iterable[tuple[Any, ...]]:
        """Return the rows of a batch; of one that came as it was written and cannot be read, rows without a value."""
        try:
            rows = lean_rows(batch)
            return self._library_rows(batch) if rows is None else rows
        except (UnsupportedCodecError, MemoryError):
            raise  # neither is the fault of what was written
        except Exception as error:
            if batch.magic != 2:
                raise
            log.error("%s: the batch at offset %d cannot be read: %r", self.topic_partition, batch.base_offset, error)
            offsets = range(batch.base_offset, batch.next_offset)
            return ((offset, batch.max_timestamp, None, None) for offset in offsets)

    def _library_rows(self, batch: Any) -> list[tuple[Any, ...]]:
        rows = []
        for record in batch:
            if self.check_crcs and not record.validate_crc():
                raise CorruptRecordError(f"a record of {self.topic_partition} at {record.offset} failed its crc check")
            rows.append((record.offset, record.timestamp, record.key, record.value))
        if batch.magic < 2:
            return rows
        offsets = [-1, *(row[0] for row in rows), batch.next_offset]
        if any(map(ge, offsets, offsets[1:])):
            raise CorruptRecordError("its offsets do not rise")
        return [(at, max(-MOST_STAMP, min(stamp, MOST_STAMP)), key, value) for at, stamp, key, value in rows]
