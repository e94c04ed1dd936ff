"""The parameters topic: snapshots, candidates, rollouts and progress, newest of each key."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace
from typing import Any, Self
from urllib.parse import urlsplit

from kafka import TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from schemas.codec import MAX_BYTES, SchemaError, decode, encode
from schemas.records import Candidate, Progress, Rollout, Snapshot
from streams.broker import BrokerPort
from streams.logs import SourceAway
from streams.parameters.snapshot import (
    CANDIDATE,
    Newest,
    SnapshotCorrupt,
    SnapshotMissing,
    Version,
    key_of,
    split_snapshot,
)
from streams.parameters.stores import SnapshotStore
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

PATIENCE_MS = 15_000  # for one call to the broker


class KafkaParameters(SnapshotStore):
    """The compacted topic: newest snapshot, candidate and rollout of each bucket, progress of each samples partition.

    Reads committed records only, from the beginning, and then what is added; what is unreadable or unsound is counted,
    told once, and hides nothing. Records whose key does not begin with ``keys`` are passed over.
    """

    name, schemes = "kafka", ("kafka",)

    @classmethod
    def at(cls, address: str, settings: Settings) -> Self:
        """Return the store on the Kafka that the settings name, or on the one at an address."""
        return cls(settings if address == cls.name else replace(settings, kafka=urlsplit(address).netloc))

    def __init__(self, settings: Settings, *, broker: BrokerPort | None = None, keys: str = "") -> None:
        self.topic = Topics.of(settings).parameters
        self.address, self._keys = settings.kafka, keys.encode()
        self.unreadable = 0
        self._forget()
        self._broker = broker or BrokerPort(settings)
        try:
            topic = self._broker.topics([self.topic]).get(self.topic)
            if topic is None or not topic.partitions:
                raise SnapshotMissing(f"no topic {self.topic!r} on Kafka at {self.address}; create it: glimpse topics")
            self.topic_id = topic.topic_id
            self._places = [TopicPartition(self.topic, number) for number in range(topic.partitions)]
            self._consumer = self._broker.consumer()
        except KafkaError as error:
            raise SourceAway(f"Kafka at {self.address} does not answer: {error}") from error
        self._consumer.assign(self._places)

    def _forget(self) -> None:
        self.progress: dict[int, Progress] = {}
        self.rollouts: dict[str, Rollout] = {}
        self._newest, self._candidates = Newest(), Newest()
        # The newest sound ones by bucket, as far as they were read; candidates may have been promoted since.
        self.snapshots, self.candidates = self._newest.by_bucket, self._candidates.by_bucket

    def catch_up(self, *, timeout_s: float = 30.0) -> None:
        """Read to where the topic ends now, waiting for transactions that are still open there.

        When that takes longer, what was read is kept, and the next call goes on from there.
        """
        give_up_at = time.monotonic() + timeout_s
        try:
            # Not the last stable offset, before which another partition's open transaction hides what is committed:
            # only the high watermark tells how far a new owner must have read.
            ends = {partition: end for partition, (_, end) in self._consumer.bounds(self._places).items()}
            while any((self._consumer.position(partition) or 0) < ends[partition] for partition in self._places):
                self.poll(timeout_ms=100)
                if time.monotonic() > give_up_at:
                    raise SourceAway(f"{self.topic} on {self.address} was not read to its end within {timeout_s:g} s")
        except KafkaError as error:
            raise self._away(error) from error

    def _away(self, error: KafkaError) -> SourceAway:
        if isinstance(error, OffsetOutOfRangeError | LogTruncationError):  # what was read is of another log
            self._forget()
            self._consumer.assign(self._places)
        return SourceAway(f"{self.topic} on {self.address} cannot be read: {error}")

    def put(self, snapshot: Snapshot, data: bytes) -> bool:
        """Write ``snapshot`` in one transaction, unless the topic holds the same or a newer sound one.

        Learners do not write this way: their transactions hold their progress too.
        """
        if self.has(snapshot):
            return False
        try:
            writer = self._broker.writer(f"glimpse-put-{uuid.uuid4()}", patience_ms=PATIENCE_MS)
            try:
                writer.begin()
                for chunk in split_snapshot(snapshot):
                    writer.send(self.topic, key=key_of(chunk), value=data if chunk is snapshot else encode(chunk))
                writer.commit()
            finally:
                writer.abandon()
        except KafkaError as error:
            raise SourceAway(f"Kafka at {self.address} does not take {self.where(snapshot.bucket)}: {error}") from error
        return True

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's newest committed snapshot, or None when there is none newer than ``after``."""
        try:
            if after is None:
                self.catch_up()
            while self.poll():
                pass
        except KafkaError as error:
            raise self._away(error) from error
        known = [newest[bucket] for newest in (self.snapshots, self._newest.unknown) if bucket in newest]
        snapshot = max(known, key=lambda snapshot: snapshot.version, default=None)
        return snapshot if snapshot is not None and (after is None or snapshot.version > after) else None

    def poll(self, timeout_ms: int = 0) -> int:
        """Take in what has come, and return how many records that was."""
        records = [record for some in self._consumer.poll(timeout_ms).values() for record in some]
        for record in records:
            if (record.key or b"").startswith(self._keys):
                self._take(record)
        return len(records)

    def _take(self, record: Any) -> None:
        if record.value is None and (record.key or b"").startswith(CANDIDATE.encode()):
            self._candidates.forget(record.key.decode("utf-8", "replace").removeprefix(CANDIDATE).partition("#")[0])
            return
        try:
            content = decode(record.value or b"", max_bytes=2 * MAX_BYTES)
            if isinstance(content, Snapshot):
                self._newest.add(content)
            elif isinstance(content, Candidate):
                self._candidates.add(decode(content.snapshot, Snapshot, max_bytes=2 * MAX_BYTES))
            elif isinstance(content, Progress):
                self.progress[content.samples_partition] = content
            elif isinstance(content, Rollout):
                known = self.rollouts.get(content.bucket)
                if known is None or known.epoch <= content.epoch:
                    self.rollouts[content.bucket] = content
        except (SchemaError, SnapshotCorrupt) as error:  # somebody else's bytes: what was good stays
            if not self.unreadable:
                words = "a record of %s at offset %d is left aside, as are others like it: %s"
                log.warning(words, self.topic, record.offset, error)
            self.unreadable += 1

    def buckets(self) -> list[str]:
        """Return the buckets that have a sound snapshot on the topic, or one of an unknown algorithm."""
        self.catch_up()
        return sorted(self.snapshots | self._newest.unknown)

    def where(self, bucket: str) -> str:
        """Return the bucket's key and the topic."""
        return f"key {bucket!r} of topic {self.topic!r} on Kafka at {self.address}"

    def close(self) -> None:
        """Close connections."""
        self._consumer.close()
