"""The newest sound snapshot of each bucket, out of records of any order and origin."""

from __future__ import annotations

from schemas.records import Snapshot
from streams.parameters.snapshot import MAX_BYTES, SnapshotCorrupt, Version, join_chunks, name_of, verify

MAX_CHUNKS = 10_000  # of one snapshot


class Newest:
    """Keeps the newest snapshot of each bucket that is whole and gives the checksum it carries.

    What does not is refused and hides nothing, however high its version. Chunks wait for the rest of their snapshot:
    one snapshot of a bucket at a time, and no more bytes of all buckets than one snapshot may have; beyond that those
    that came first are given up.
    """

    def __init__(self, *, loose_bytes: int = MAX_BYTES) -> None:
        self.by_bucket: dict[str, Snapshot] = {}
        self._loose_bytes = loose_bytes
        self._loose: dict[str, LooseChunks] = {}

    @property
    def loose_bytes(self) -> int:
        """How many bytes wait for the rest of their snapshot."""
        return sum(loose.size for loose in self._loose.values())

    def add(self, record: Snapshot) -> bool:
        """Note one record; return whether a newer snapshot of its bucket is now whole, or raise SnapshotCorrupt."""
        known = self.by_bucket.get(record.bucket)
        if known is not None and record.version <= known.version:
            return False
        if record.chunks != 1:
            whole = self._gather(record)
            if whole is None:
                return False
            record = whole
        verify(record)
        self.by_bucket[record.bucket] = record
        self._loose.pop(record.bucket, None)
        return True

    def forget(self, bucket: str) -> None:
        """Have none of a bucket any more."""
        self.by_bucket.pop(bucket, None)
        self._loose.pop(bucket, None)

    def _gather(self, chunk: Snapshot) -> Snapshot | None:
        if not (0 <= chunk.chunk < chunk.chunks <= MAX_CHUNKS):
            raise SnapshotCorrupt(f"snapshot {name_of(chunk)} has chunk {chunk.chunk} of {chunk.chunks}")
        loose = self._loose.pop(chunk.bucket, None)
        if loose is None or loose.of != (chunk.version, chunk.sha256, chunk.chunks):
            loose = LooseChunks(chunk)  # what is later in the log replaces what never became whole
        loose.add(chunk)
        if loose.whole:
            return join_chunks(loose.in_order())
        self._loose[chunk.bucket] = loose
        while self.loose_bytes > self._loose_bytes:
            del self._loose[next(iter(self._loose))]
        return None


class LooseChunks:
    """Chunks of one snapshot that is not whole yet."""

    def __init__(self, chunk: Snapshot) -> None:
        self.of: tuple[Version, str, int] = chunk.version, chunk.sha256, chunk.chunks
        self.size = 0
        self._chunks: dict[int, Snapshot] = {}

    def add(self, chunk: Snapshot) -> None:
        """Keep a chunk; one that comes again replaces itself."""
        self.size -= self._bytes(chunk.chunk)
        self._chunks[chunk.chunk] = chunk
        self.size += self._bytes(chunk.chunk)

    def _bytes(self, number: int) -> int:
        known = self._chunks.get(number)
        return 0 if known is None else sum(len(part.data) for part in known.state)

    @property
    def whole(self) -> bool:
        """Whether every chunk is there."""
        return len(self._chunks) == self.of[2]

    def in_order(self) -> list[Snapshot]:
        """Return the chunks by number."""
        return [self._chunks[number] for number in sorted(self._chunks)]
