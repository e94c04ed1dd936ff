"""Snapshots as records: chunks for what one record cannot hold, and the newest whole one of each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.codec import SchemaError, decode, encode
from schemas.records import Snapshot, StateArray
from streams.parameters.errors import SnapshotCorrupt

CHUNK_BYTES = 800_000  # of payload in one record, so that it stays below the broker's 1 MB with its other fields


MAX_BYTES = 1 << 30  # of a whole snapshot


Version = tuple[int, int]  # (epoch, samples offset), which only grows


def split_snapshot(snapshot: Snapshot, *, chunk_bytes: int = CHUNK_BYTES) -> list[Snapshot]:
    """Return the records that carry ``snapshot``: itself, or numbered chunks of its bytes when it is too large."""
    whole = encode(snapshot)
    if len(whole) <= chunk_bytes:
        return [snapshot]
    pieces = [whole[start : start + chunk_bytes] for start in range(0, len(whole), chunk_bytes)]
    return [
        replace(
            snapshot,
            theta=b"",
            state=[StateArray("piece", "|u1", [len(piece)], piece)],
            chunk=number,
            chunks=len(pieces),
        )
        for number, piece in enumerate(pieces)
    ]


def join_chunks(chunks: Sequence[Snapshot]) -> Snapshot:
    """Return the whole snapshot that ``split_snapshot`` has cut, given all its chunks in order."""
    if len(chunks) == 1 and chunks[0].chunks == 1:
        return chunks[0]
    first = chunks[0]
    if [chunk.chunk for chunk in chunks] != list(range(first.chunks)):
        raise SnapshotCorrupt(f"snapshot {name_of(first)} has chunks {[c.chunk for c in chunks]} of {first.chunks}")
    whole = load_snapshot(b"".join(part.data for chunk in chunks for part in chunk.state))
    if (whole.bucket, whole.version, whole.sha256) != (first.bucket, first.version, first.sha256):
        raise SnapshotCorrupt(f"the chunks of {name_of(first)} hold {name_of(whole)}")
    return whole


def load_snapshot(data: bytes) -> Snapshot:
    """Return a whole snapshot from its bytes, as Redis and files hold them."""
    try:
        snapshot: Snapshot = decode(data, Snapshot, max_bytes=MAX_BYTES)
    except SchemaError as error:
        raise SnapshotCorrupt(f"no snapshot: {error}") from error
    return snapshot


class Newest:
    """Snapshot records in, the newest whole snapshot of each bucket out; older ones and loose chunks are left aside."""

    def __init__(self) -> None:
        self.by_bucket: dict[str, Snapshot] = {}
        self._waiting: dict[tuple[str, Version, str], dict[int, Snapshot]] = {}

    def add(self, record: Snapshot) -> bool:
        """Note one record; return whether a newer snapshot of its bucket is now whole."""
        known = self.by_bucket.get(record.bucket)
        if known is not None and record.version <= known.version:
            return False
        if record.chunks > 1:
            key = (record.bucket, record.version, record.sha256)
            waiting = self._waiting.setdefault(key, {})
            waiting[record.chunk] = record
            if len(waiting) < record.chunks:
                return False
            record = join_chunks([waiting[number] for number in sorted(waiting)])
        self.by_bucket[record.bucket] = record
        self._forget(record.bucket, record.version)
        return True

    def _forget(self, bucket: str, version: Version) -> None:
        for key in [key for key in self._waiting if key[0] == bucket and key[1] <= version]:
            del self._waiting[key]


def newest(records: Iterable[Snapshot]) -> dict[str, Snapshot]:
    """Return the newest whole snapshot of each bucket."""
    gather = Newest()
    for record in records:
        gather.add(record)
    return gather.by_bucket


def name_of(snapshot: Snapshot) -> str:
    """Return what people call a snapshot: bucket, epoch and offset."""
    return f"{snapshot.bucket}@{snapshot.epoch}.{snapshot.samples_offset}"
