"""A short cut through kafka-python's parser of record batches, for readers that want offset, time, key and value.

kafka-python 3.0.12 takes 10 µs for a record, most of it for thirteen fields that no job looks at. What this reads is
held to the same rules; a batch that is not of the common kind (headers, an old format, anything odd) goes the library's
way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from streams.broker.port import Fetched
from streams.broker.unreadable import ReadablePartitionRecords


def read_lean(consumer: KafkaConsumer) -> None:
    """Have a consumer give ``Fetched`` records; it must have no deserializers.

    The fetcher looks its parser up by this name for every answer of the broker.
    """
    consumer._fetcher.PartitionRecords = LeanPartitionRecords


class LeanPartitionRecords(ReadablePartitionRecords):
    """What one fetch brought of a partition; only the way from batches to records differs from the library's."""

    def _unpack_records(self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any) -> Iterator[Any]:
        make = tuple.__new__
        while (batch := records.next_batch()) is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"the batch of {tp} at offset {batch.base_offset} failed its crc check")
            if batch.magic == 2 and self._hidden(batch):
                self.next_fetch_offset = batch.next_offset
                continue
            rows = lean_rows(batch)
            self.records_read += len(rows or ())
            for row in self._rows(batch) if rows is None else rows:
                self.next_fetch_offset = row[0] + 1
                yield make(Fetched, row)
            if batch.magic == 2:  # its last records may have been compacted away
                self.next_fetch_offset = batch.next_offset
                self.bytes_read += batch.size_in_bytes
        self.drain()

    def _hidden(self, batch: DefaultRecordBatch) -> bool:
        """Return whether a batch is a marker, or of a transaction that was aborted."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level and batch.has_producer_id():  # 1: committed records only
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)

    def _rows(self, batch: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a batch as the library reads them, up to the first that is damaged."""
        for record in batch:
            if self.check_crcs and not record.validate_crc():
                raise CorruptRecordError(f"a record of {self.topic_partition} at {record.offset} failed its crc check")
            self.records_read += 1
            yield record.offset, record.timestamp, record.key, record.value


def lean_rows(batch: Any) -> list[tuple[int, int, bytes | None, bytes | None]] | None:
    """Return (offset, time stamp, key, value) of every record of a batch, or None when it is not of the common kind."""
    if batch.magic != 2 or batch._next_record_index:
        return None
    batch._maybe_uncompress()
    data, at = bytes(batch._buffer), batch._pos
    base, stamp, append_time = batch.base_offset, batch.first_timestamp, batch.max_timestamp
    if not batch.timestamp_type:
        append_time = None
    rows = []
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
            if flags or (number | delta) & 1 or data[at] or at + 1 != end:  # negative sizes, headers
                return None
            at = end
            moment = stamp + ((later >> 1) ^ -(later & 1)) if append_time is None else append_time
            rows.append((base + (delta >> 1), moment, key, value))
    except IndexError:
        return None
    return rows if at == len(data) else None


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return a varint of several bytes, still zigzagged, and what comes behind it; not in place if it has over four."""
    more = data[at]
    if more < 128:
        return first + (more << 7) - 128, at + 1
    third = data[at + 1]
    if third < 128:
        return first + (more << 7) + (third << 14) - 16512, at + 2
    fourth = data[at + 2]
    if fourth < 128:
        return first + (more << 7) + (third << 14) + (fourth << 21) - 2113664, at + 3
    raise IndexError("a number of more than four bytes")
