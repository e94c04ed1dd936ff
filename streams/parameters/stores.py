"""What every store of snapshots does, and the one that needs no server: a directory."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import urlsplit

from schemas.records import Snapshot
from streams.logs import SourceAway, replace_file
from streams.parameters.snapshot import AlgorithmUnknown, SnapshotCorrupt, Version, load_snapshot, name_of, verify
from streams.settings import Settings

log = logging.getLogger(__name__)


class SnapshotStore(ABC):
    """Keeps the newest snapshot of each bucket. ``streams.parameters.job.STORES`` lists the stores."""

    name: ClassVar[str] = ""  # what a user types to get the store of the settings; "" where the settings have none
    schemes: ClassVar[tuple[str, ...]]  # of addresses that name such a store

    @classmethod
    @abstractmethod
    def at(cls, address: str, settings: Settings) -> Self:
        """Return the store at ``address``, which is its ``name`` or has one of its ``schemes``."""

    @classmethod
    def online(cls, settings: Settings) -> str | None:
        """Return the address at which the settings ask learners to fill this store; rankers then read it by default."""
        return None

    @abstractmethod
    def put(self, snapshot: Snapshot, data: bytes) -> bool:
        """Write ``snapshot``, encoded as ``data``, unless the store holds the same or a newer sound one.

        Returns whether it was written. Raises SourceAway when the store does not answer, and AlgorithmUnknown rather
        than replace one of the same or a higher version whose algorithm is not registered here.
        """

    @abstractmethod
    def newest(self, bucket: str, *, after: Version | None = None) -> Snapshot | None:
        """Return the bucket's newest snapshot, or None when there is none newer than ``after``.

        Raises SourceAway when the store does not answer, and SnapshotCorrupt when it holds other bytes. Whoever uses a
        snapshot of an unknown algorithm gets AlgorithmUnknown.
        """

    @abstractmethod
    def buckets(self) -> list[str]:
        """Return the names of the buckets that have a snapshot."""

    @abstractmethod
    def where(self, bucket: str) -> str:
        """Return how people would name the place of the bucket's snapshot."""

    def close(self) -> None:  # noqa: B027
        """Close connections, if there are any."""

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether the store holds a sound snapshot of the same or a higher version; see ``put``."""
        where = self.where(snapshot.bucket)
        try:
            known = self.newest(snapshot.bucket)
            if known is None or known.version < snapshot.version:
                return False
            verify(known)
        except AlgorithmUnknown as error:
            raise AlgorithmUnknown(f"{where} is not replaced by {name_of(snapshot)}: {error}") from error
        except SnapshotCorrupt as error:
            log.warning("%s is replaced: %s", where, error)
            return False
        return True


class DirectoryParameters(SnapshotStore):
    """A directory with one file per bucket, replaced as a whole."""

    schemes = ("", "file")

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def at(cls, address: str, settings: Settings) -> Self:
        """Return the store in a directory, or in ``snapshots`` inside it, where the embedded runner has them."""
        path = Path(urlsplit(address).path if address.startswith("file:") else address)
        inside = path / "snapshots"
        return cls(inside if inside.is_dir() else path)

    def file(self, bucket: str) -> Path:
        """Return the file of a bucket."""
        return self.path / f"{bucket}.snapshot"

    def put(self, snapshot: Snapshot, data: bytes) -> bool:
        """Write ``data``, the bytes of ``snapshot``, unless the file holds the same or a newer sound one."""
        if self.has(snapshot):
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
        """Return the file's path."""
        return str(self.file(bucket))
