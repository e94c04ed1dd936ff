"""A directory with one snapshot file per bucket."""

from __future__ import annotations

from pathlib import Path

from schemas.records import Snapshot
from streams.logs import SourceAway, replace_file
from streams.parameters.snapshot import SnapshotCorrupt, Version, load_snapshot, verify


class DirectoryParameters:
    """A directory with one file per bucket, replaced as a whole."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def file(self, bucket: str) -> Path:
        """Return the file of a bucket."""
        return self.path / f"{bucket}.snapshot"

    def put(self, snapshot: Snapshot, data: bytes) -> bool:
        """Write ``data``, the bytes of ``snapshot``, unless the file holds the same or a newer one."""
        try:
            known = self.newest(snapshot.bucket)
            if known is not None:
                verify(known)  # what is not sound must not stand in the way of what is
        except SnapshotCorrupt:
            known = None
        if known is not None and known.version >= snapshot.version:
            return False
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.file(snapshot.bucket), data, sync=False)
        return True

    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's snapshot, or None when there is none newer than ``after``."""
        try:
            snapshot = load_snapshot(self.file(bucket).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceAway(f"{self.where(bucket)} cannot be read: {error}") from error
        return snapshot if after is None or snapshot.version > after else None

    def buckets(self) -> list[str]:
        """Return the buckets that have a file."""
        return sorted(file.stem for file in self.path.glob("*.snapshot"))

    def where(self, bucket: str) -> str:
        """Return how people would name the place of the bucket's snapshot."""
        return str(self.file(bucket))

    def close(self) -> None:
        """Nothing is held open."""
