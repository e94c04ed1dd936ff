"""A short cut through kafka-python's fetcher, for readers that want offset, time, key and value.

A batch that is not of the common kind (an old format, anything odd) goes the library's way. One that came as it was
written and cannot be read, or is too large unpacked, has records without a value in its place: who wrote it must not
stop its readers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import ge
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatch

from streams.broker.batch_rows import lean_rows
from streams.broker.port import Fetched
from streams.broker.unreadable import ReadablePartitionRecords, UnreadableBatch

MOST_POLL_BYTES = 32 << 20  # of batches that one poll hands out, unpacked, about
MOST_STAMP = (1 << 63) - 1

log = logging.getLogger(__name__)


def read_lean(consumer: KafkaConsumer) -> None:
    """Have a consumer give ``Fetched`` records; it must have no deserializers.

    The fetcher looks its parser up by this name for every answer of the broker.
    """
    fetcher = consumer._fetcher
    append = fetcher._append

    def append_some(drained: Any, part: Any, max_records: int, update_offsets: bool) -> int:
        count: int = append(drained, part, max_records, update_offsets)
        return max_records if part.enough else count  # no more in this poll

    fetcher.PartitionRecords, fetcher._append = LeanPartitionRecords, append_some


class LeanPartitionRecords(ReadablePartitionRecords):
    """What one fetch brought of a partition; only the way from batches to records differs from the library's."""

    enough = False  # whether the last call took as many bytes as one poll may hand out
    _room = MOST_POLL_BYTES

    def take(self, n: int | None = None) -> list[Any]:
        """Return the next records, up to ``n``, and of no more batches once they make as many bytes as one poll may."""
        self._room, records = MOST_POLL_BYTES, list[Any]()
        try:
            records.extend(islice(iter(self.record_iterator.__next__, None), n))
        except Exception as error:
            self.drain()
            if not records:  # else the next fetch brings it again
                raise UnreadableBatch({self.topic_partition: self.next_fetch_offset}, repr(error)) from error
        self.enough = self._room <= 0
        return records

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
        rows = [(record.offset, record.timestamp, record.key, record.value) for record in self._sound(batch)]
        if batch.magic < 2:
            return rows
        offsets = [-1, *(row[0] for row in rows), batch.next_offset]
        if any(map(ge, offsets, offsets[1:])):
            raise CorruptRecordError("its offsets do not rise")
        return [(at, max(-MOST_STAMP, min(stamp, MOST_STAMP)), key, value) for at, stamp, key, value in rows]

    def _sound(self, batch: Any) -> Iterator[Any]:
        for record in batch:
            if self.check_crcs and not record.validate_crc():
                raise CorruptRecordError(f"a record of {self.topic_partition} at {record.offset} failed its crc check")
            yield record
