"""Snapshots as records: numbered chunks for what one record cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schemas.codec import SchemaError, decode, encode
from schemas.records import Snapshot, StateArray
from streams.parameters.errors import SnapshotCorrupt

CHUNK_BYTES = 800_000  # of payload in one record, so that it stays below the broker's 1 MB with its other fields
MAX_BYTES = 1 << 30  # of a whole snapshot

CANDIDATE = "@candidate-"  # before the bucket, in the key of a candidate
ROLLOUT = "@rollout-"

Version = tuple[int, int]  # (epoch, samples offset), which only grows


def key_of(snapshot: Snapshot, prefix: str = "") -> bytes:
    """Return the key under which a snapshot, or a chunk of one, is kept in a compacted topic."""
    return f"{prefix}{snapshot.bucket}{f'#{snapshot.chunk}' if snapshot.chunk else ''}".encode()


def split_snapshot(snapshot: Snapshot, *, chunk_bytes: int = CHUNK_BYTES) -> list[Snapshot]:
    """Return the records that carry ``snapshot``: itself, or numbered chunks of its bytes when it is too large."""
    whole = encode(snapshot)
    if len(whole) > MAX_BYTES:
        raise ValueError(
            f"snapshot {name_of(snapshot)} has {len(whole)} bytes, more than the {MAX_BYTES} that are read"
        )
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


def name_of(snapshot: Snapshot) -> str:
    """Return what people call a snapshot: bucket, epoch and offset."""
    return f"{snapshot.bucket}@{snapshot.epoch}.{snapshot.samples_offset}"
