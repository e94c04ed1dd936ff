"""The parameters topic: snapshots, candidates, rollouts and progress, newest of each key."""

from __future__ import annotations

import logging
import time
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Candidate, Progress, Rollout, Snapshot
from streams.broker import BrokerPort, KafkaBroker
from streams.logs import SourceAway
from streams.parameters.newest import Newest
from streams.parameters.snapshot import CANDIDATE, SnapshotCorrupt, SnapshotMissing, Version
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)


class KafkaParameters:
    """The compacted topic: newest snapshot, candidate and rollout of each bucket, progress of each samples partition.

    Reads committed records only, from the beginning, and then what is added; what is unreadable or unsound is counted,
    told once, and hides nothing.
    """

    def __init__(self, settings: Settings, *, broker: BrokerPort | None = None) -> None:
        self.topic = Topics.of(settings).parameters
        self.address = settings.kafka
        self.unreadable = 0
        self._forget()
        broker = broker or KafkaBroker(settings)
        try:
            found = broker.topics([self.topic]).get(self.topic)
            if found is None or not found.partitions:
                raise SnapshotMissing(f"no topic {self.topic!r} on Kafka at {self.address}; create it: glimpse topics")
            self.topic_id = found.topic_id
            self._places = [TopicPartition(self.topic, number) for number in range(found.partitions)]
            self._consumer = broker.consumer()
        except KafkaError as error:
            raise SourceAway(f"Kafka at {self.address} does not answer: {error}") from error
        self._consumer.assign(self._places)

    def _forget(self) -> None:
        self.progress: dict[int, Progress] = {}
        self.rollouts: dict[str, Rollout] = {}
        self._newest, self._candidates = Newest(), Newest()

    @property
    def candidates(self) -> dict[str, Snapshot]:
        """What each bucket's candidate has learned, as far as it was read; promoted ones may be among them."""
        return self._candidates.by_bucket

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        """The newest sound snapshot of each bucket, as far as it was read."""
        return self._newest.by_bucket

    def catch_up(self, *, timeout_s: float = 30.0) -> None:
        """Read to where the topic ends now, waiting for transactions that are still open there.

        When that takes longer, what was read is kept, and the next call goes on from there.
        """
        give_up_at = time.monotonic() + timeout_s
        try:
            # Not the last stable offset, before which another partition's open transaction hides what is committed:
            # only the high watermark tells how far a new owner must have read.
            ends = {place: end for place, (_, end) in self._consumer.bounds(self._places).items()}
            while any((self._consumer.position(place) or 0) < ends[place] for place in self._places):
                self._poll(timeout_ms=100)
                if time.monotonic() > give_up_at:
                    raise SourceAway(f"{self.topic} on {self.address} was not read to its end within {timeout_s:g} s")
        except KafkaError as error:
            raise self._away(error) from error

    def _away(self, error: KafkaError) -> SourceAway:
        if isinstance(error, OffsetOutOfRangeError | LogTruncationError):  # what was read is of another log
            self._forget()
            self._consumer.assign(self._places)
        return SourceAway(f"{self.topic} on {self.address} cannot be read: {error}")

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's newest committed snapshot, or None when there is none newer than ``after``."""
        try:
            if after is None:
                self.catch_up()
            while self._poll(timeout_ms=0):
                pass
        except KafkaError as error:
            raise self._away(error) from error
        snapshot = self.snapshots.get(bucket)
        return snapshot if snapshot is not None and (after is None or snapshot.version > after) else None

    def _poll(self, timeout_ms: int) -> int:
        batches = self._consumer.poll(timeout_ms)
        records = [record for some in batches.values() for record in some]
        for record in records:
            self._take(record)
        return len(records)

    def _take(self, record: Any) -> None:
        if record.value is None and (record.key or b"").startswith(CANDIDATE.encode()):
            self._candidates.forget(record.key.decode("utf-8", "replace").removeprefix(CANDIDATE).partition("#")[0])
            return
        try:
            found = decode(record.value or b"", max_bytes=2 * MAX_BYTES)
            if isinstance(found, Snapshot):
                self._newest.add(found)
            elif isinstance(found, Candidate):
                self._candidates.add(decode(found.snapshot, Snapshot, max_bytes=2 * MAX_BYTES))
            elif isinstance(found, Progress):
                self.progress[found.samples_partition] = found
            elif isinstance(found, Rollout):
                known = self.rollouts.get(found.bucket)
                if known is None or known.epoch <= found.epoch:
                    self.rollouts[found.bucket] = found
        except (SchemaError, SnapshotCorrupt) as error:  # somebody else's bytes: what was good stays
            if not self.unreadable:
                words = "a record of %s at offset %d is left aside, as are others like it: %s"
                log.warning(words, self.topic, record.offset, error)
            self.unreadable += 1

    def buckets(self) -> list[str]:
        """Return the buckets that have a sound snapshot on the topic."""
        self.catch_up()
        return sorted(self.snapshots)

    def where(self, bucket: str) -> str:
        """Return how people would name the place of the bucket's snapshot."""
        return f"key {bucket!r} of topic {self.topic!r} on Kafka at {self.address}"

    def close(self) -> None:
        """Let go of connections."""
        self._consumer.close()
