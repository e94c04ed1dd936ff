"""Batches that cannot be read: damaged on the broker's disk, or compressed in a way that is not known here."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaError


class UnreadableBatch(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """Batches that cannot be read: the first argument has the offset of each by its partition, the second says why."""

    def __str__(self) -> str:
        places, why = self.args
        found = [f"partition {place.partition} of {place.topic} at offset {at}" for place, at in places.items()]
        return f"cannot read {' and '.join(found)}: {why}"


class ReadablePartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python has no types
    """What one fetch brought of a partition, up to a batch that cannot be read; the next fetch brings that again."""

    def take(self, n: int | None = None) -> list[Any]:
        """Return up to ``n`` records."""
        try:
            records: list[Any] = super().take(n)
            return records
        except Exception as error:  # of a codec, too
            self.drain()
            raise UnreadableBatch({self.topic_partition: self.next_fetch_offset}, repr(error)) from error


def end_at_unreadable(consumer: KafkaConsumer) -> None:
    """Have a consumer raise UnreadableBatch, each time that it meets one.

    kafka-python 3.0.12 raises what is wrong once; then it asks the records of that fetch, of which none are left, for
    more, within one poll and without an end.
    """
    consumer._fetcher.PartitionRecords = ReadablePartitionRecords
