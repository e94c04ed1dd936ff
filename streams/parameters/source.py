"""Where a ranker gets snapshots from: what Kafka, Redis and a directory have in common."""

from typing import Protocol

from schemas.records import Snapshot
from streams.parameters.snapshot import Version


class SnapshotSource(Protocol):
    """Where a ranker gets its snapshots from."""

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's newest snapshot, or None when there is none newer than ``after``.

        Raises SourceAway when the place does not answer, and SnapshotCorrupt when it holds other bytes.
        """

    def buckets(self) -> list[str]:
        """Return the names of the buckets that have a snapshot."""

    def where(self, bucket: str) -> str:
        """Return how people would name the place of the bucket's snapshot."""

    def close(self) -> None:
        """Let go of connections."""
