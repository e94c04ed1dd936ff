"""Topics as directories of Avro container files: one folder per topic, one per partition, offsets and time stamps kept.

archive/impressions/topic.json                        its name, id and number of partitions
archive/impressions/0/00000000000000000000.avro       a segment of partition 0, named after its first offset
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from schemas.json_text import parse_json
from streams.logs.block import LogBlock
from streams.logs.segment import ArchiveCorrupt, ArchiveError, Segment, default_codec, replace_file

log = logging.getLogger(__name__)

FORMAT = "glimpse-archive-1"
BLOCK_BYTES = 2 << 20  # of payload, about 3,000 impressions
SEGMENT_BYTES = 128 << 20
MAX_PARTITIONS = 10_000  # of a topic; each is looked at before anything is read
_FOREVER = 1 << 62


class Position(NamedTuple):
    """A place in a partition's files, to come back to."""

    segment: str
    size: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What is known about an archived topic besides its records."""

    topic: str
    topic_id: str
    partitions: int
    format: str = FORMAT


class Archive:
    """A directory of topics. Reading needs no lock; ``writing`` keeps a second writer out."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: Path | str) -> Archive:
        """Return the archive at ``path``, or refuse what is none."""
        archive, there = cls(path), "there is no such directory"
        if archive.topics():
            return archive
        if archive.path.is_dir():
            there = f"it holds {', '.join(sorted(entry.name for entry in archive.path.iterdir())[:5]) or 'nothing'}"
        elif archive.path.exists():
            there = "it is a file"
        wanted = "wanted folders of topics, each with a topic.json"
        raise ArchiveError(f"{archive.path} is no archive: {wanted}; {there}; make one: glimpse archive")

    def topics(self) -> list[str]:
        """Return the names of the topics that are here."""
        return sorted(file.parent.name for file in self.path.glob("*/topic.json"))

    def add_topic(self, name: str, *, partitions: int, topic_id: str | None = None, topic: str | None = None) -> None:
        """Make room for a topic, or check that the one that is here is the same."""
        folder = self.path / name
        wanted = TopicInfo(topic or name, topic_id or uuid.uuid4().hex, partitions)
        if (folder / "topic.json").exists():
            info = self.info(name)
            if info.partitions != partitions or (topic_id is not None and info.topic_id != topic_id):
                raise ArchiveError(
                    f"{folder} holds topic {info.topic!r} of id {info.topic_id} with {info.partitions} partitions, not "
                    f"{wanted.topic!r} of id {wanted.topic_id} with {partitions}; take another directory"
                )
            return
        for number in range(partitions):
            (folder / str(number)).mkdir(parents=True, exist_ok=True)
        replace_file(folder / "topic.json", json.dumps(asdict(wanted), indent=2).encode() + b"\n")

    def info(self, name: str) -> TopicInfo:
        """Return what is known about a topic."""
        file = self.path / name / "topic.json"
        try:
            info = TopicInfo(**parse_json(file.read_bytes()))
        except FileNotFoundError:
            known = ", ".join(self.topics()) or "none"
            raise ArchiveError(f"{self.path} has no topic {name!r}; its topics: {known}") from None
        except (OSError, ValueError, TypeError) as error:
            raise ArchiveError(f"{file} cannot be read: {error}") from error
        if info.format != FORMAT:
            raise ArchiveError(f"{file} is of format {info.format!r}; this version reads {FORMAT!r}")
        if type(info.partitions) is not int or not 1 <= info.partitions <= MAX_PARTITIONS:
            raise ArchiveError(f"{file} must say from 1 to {MAX_PARTITIONS} partitions, not {info.partitions!r:.40}")
        return info

    def log(self, name: str, partition: int) -> ArchivedLog:
        """Return one partition of a topic."""
        info = self.info(name)
        if not 0 <= partition < info.partitions:
            raise ArchiveError(f"{self.path / name} has partitions 0 to {info.partitions - 1}, not {partition}")
        return ArchivedLog(self.path / name / str(partition), info.topic, partition)

    def logs(self, name: str) -> list[ArchivedLog]:
        """Return all partitions of a topic."""
        return [self.log(name, number) for number in range(self.info(name).partitions)]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers out meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ArchiveError(f"another process writes to {self.path}; wait for it, or stop it") from error
            yield


class ArchivedLog:
    """One partition of an archived topic."""

    def __init__(self, path: Path, topic: str, partition: int) -> None:
        self.path, self.topic, self.partition = path, topic, partition

    def segments(self) -> list[Path]:
        """Return its files in the order of their offsets."""
        files = sorted(self.path.glob("*.avro"))
        for file in files:
            if not re.fullmatch(r"[0-9]{20}", file.stem):
                raise ArchiveError(f"{file} is no segment: its name must be its first offset in 20 digits")
        return files

    @property
    def size_bytes(self) -> int:
        """How much its files take."""
        return sum(file.stat().st_size for file in self.segments())

    @property
    def start(self) -> int:
        """The first offset that it covers."""
        return next((int(file.stem) for file in self.segments()), 0)

    @cached_property
    def end(self) -> int:
        """The offset after the last that it covered when this was first asked."""
        files = self.segments()
        return Segment(files[-1]).end()[0] if files else 0

    def read(self, start: int = 0, stop: int = _FOREVER) -> Iterator[LogBlock]:
        """Yield its blocks from offset ``start`` up to ``stop``, cut to that range."""
        files = self.segments()
        for file, after in zip_longest(files, [int(later.stem) for later in files[1:]]):
            end = int(file.stem)
            if end >= stop:
                return
            if after is not None and after <= start:
                continue
            for block, _ in Segment(file).blocks(last=after is None):
                end = block.next_offset
                cut = np.searchsorted(block.offsets, [start, stop]).tolist()
                if cut[0] < cut[1]:
                    yield block.part(*cut)
                if end >= stop:
                    return
            if after is not None and end != after:
                raise ArchiveCorrupt(
                    f"{file} ends at offset {end}, but the next file begins at {after}; a file is missing"
                )


class LogWriter:
    """Appends blocks to one partition; anything that a crash has torn is cut first.

    ``start`` is the first offset to come, when the partition is empty. What was written after ``at`` is dropped.
    """

    def __init__(
        self, log: ArchivedLog, *, start: int = 0, at: Position | None = None, codec: str | None = None
    ) -> None:
        self.log, self._codec = log, codec or default_codec()
        if at is not None:
            self._drop_after(at)
        files = log.segments()
        path = files[-1] if files else self._new(start)
        self._segment, self._file = Segment(path), _appending(path)
        self.next_offset, self._end = self._segment.end()  # the byte after the last whole block
        self._cut()

    def _drop_after(self, at: Position) -> None:
        file, segments = self.log.path / at.segment, self.log.segments()
        if file not in segments or file.stat().st_size < at.size:
            raise ArchiveCorrupt(f"{file} is gone or shorter than the {at.size} bytes it had")
        for later in segments[segments.index(file) + 1 :]:
            later.unlink()
        os.truncate(file, at.size)

    def _cut(self) -> None:
        torn = self._file.seek(0, os.SEEK_END) - self._end
        if torn:
            log.warning("%s: cut %d bytes of a torn last block", self._segment.path, torn)
            self._file.truncate(self._end)
            self._file.seek(self._end)

    def _new(self, start: int) -> Path:
        path = self.log.path / f"{start:020}.avro"
        metadata = {"glimpse.topic": self.log.topic, "glimpse.partition": str(self.log.partition)}
        return Segment.create(path, metadata, codec=self._codec).path

    @property
    def position(self) -> Position:
        """Where the next block goes."""
        return Position(self._segment.path.name, self._end, self.next_offset)

    def append(self, block: LogBlock) -> None:
        """Write a block whose offsets follow those before; one that failed (a full disk) can be written again."""
        if (len(block) and block.offsets[0] < self.next_offset) or block.next_offset <= self.next_offset:
            raise ArchiveError(f"{self.log.path} goes on at offset {self.next_offset}, got a block before that")
        self._cut()  # what an append that failed has left
        if self._end > SEGMENT_BYTES:
            path = self._new(self.next_offset)
            full, self._segment, self._file = self._file, Segment(path), _appending(path)
            self._end = self._segment.header.end
            full.close()
        data = self._segment.pack(block)
        written = 0
        while written < len(data):  # a disk that is nearly full takes a part
            written += self._file.write(data[written:])
        self._end, self.next_offset = self._end + written, block.next_offset

    def sync(self) -> None:
        """Wait until the disk has it: a power cut loses nothing."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _appending(path: Path) -> BinaryIO:
    # Without a buffer: what was written the system has, so a kill loses nothing, and what failed is not tried later.
    file = path.open("r+b", buffering=0)
    file.seek(0, os.SEEK_END)
    return file
