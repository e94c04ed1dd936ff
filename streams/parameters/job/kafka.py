"""The parameters topic: snapshots and progress, newest of each key."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka import TopicPartition
from kafka.errors import KafkaError

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Progress, Snapshot
from streams.broker import consumer
from streams.logs import SourceAway
from streams.parameters.chunks import Newest, Version
from streams.parameters.errors import SnapshotCorrupt, SnapshotMissing
from streams.settings import Settings, Topics


class KafkaParameters:
    """The compacted topic: the newest snapshot of each bucket and the progress of each samples partition.

    Reads committed records only, from the beginning, and then what is added.
    """

    def __init__(self, settings: Settings) -> None:
        self.topic = Topics.of(settings).parameters
        self.address = settings.kafka
        self.progress: dict[int, Progress] = {}
        self.unreadable = 0
        self._newest = Newest()
        try:
            self._consumer = consumer(settings, auto_offset_reset="earliest")
            # A committed reader's end is the last stable offset: it hides what another partition's open transaction
            # stands before. Only the high watermark tells how far a new owner must have read.
            self._ends = consumer(settings, isolation_level="read_uncommitted")
            partitions = sorted(self._consumer.partitions_for_topic(self.topic) or ())
        except KafkaError as error:
            raise SourceAway(f"Kafka at {self.address} does not answer: {error}") from error
        if not partitions:
            self.close()
            raise SnapshotMissing(f"no topic {self.topic!r} on Kafka at {self.address}; create it: glimpse topics")
        self._partitions = [TopicPartition(self.topic, number) for number in partitions]
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        """The newest whole snapshot of each bucket, as far as it was read."""
        return self._newest.by_bucket

    def catch_up(self, *, timeout_s: float = 30.0) -> None:
        """Read to where the topic ends now, waiting for transactions that are still open there."""
        give_up_at = time.monotonic() + timeout_s
        try:
            ends = self._ends.end_offsets(self._partitions)
            while any(self._consumer.position(place) < ends[place] for place in self._partitions):
                self._poll(timeout_ms=100)
                if time.monotonic() > give_up_at:
                    raise SourceAway(f"{self.topic} on {self.address} was not read to its end within {timeout_s:g} s")
        except KafkaError as error:
            raise SourceAway(f"{self.topic} on {self.address} cannot be read: {error}") from error

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's newest committed snapshot, or None when there is none newer than ``after``."""
        try:
            if after is None:
                self.catch_up()
            while self._poll(timeout_ms=0):
                pass
        except KafkaError as error:
            raise SourceAway(f"{self.topic} on {self.address} cannot be read: {error}") from error
        snapshot = self.snapshots.get(bucket)
        return snapshot if snapshot is not None and (after is None or snapshot.version > after) else None

    def _poll(self, timeout_ms: int) -> int:
        batches = self._consumer.poll(timeout_ms=timeout_ms, max_records=1000)
        values = [record.value for records in batches.values() for record in records]
        self._take(values)
        return len(values)

    def _take(self, values: Iterable[bytes | None]) -> None:
        for value in values:
            try:
                record = decode(value or b"", max_bytes=2 * MAX_BYTES)
                if isinstance(record, Snapshot):
                    self._newest.add(record)
                elif isinstance(record, Progress):
                    self.progress[record.samples_partition] = record
            except (SchemaError, SnapshotCorrupt):
                self.unreadable += 1  # somebody else's bytes: what was good stays

    def where(self, bucket: str) -> str:
        """Return how people would name the place of the bucket's snapshot."""
        return f"key {bucket!r} of topic {self.topic!r} on Kafka at {self.address}"

    def close(self) -> None:
        """Let go of connections."""
        for client in (self._consumer, self._ends):
            client.close()
