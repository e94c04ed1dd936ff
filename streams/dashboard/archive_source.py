"""Looks at archived topics, in the order of the records' own time; what is appended is followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from itertools import chain, pairwise
from pathlib import Path

from schemas.codec import encode
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.logs import Archive, ArchivedLog, ArchiveError, LogBlock, LogRecord, SourceAway
from streams.parameters import SnapshotCorrupt, load_snapshot, split_snapshot
from streams.settings import TOPICS

LOOK_BYTES = 8 << 20
END = (1 << 63) - 1

TopicBlock = tuple[str, int, LogBlock]  # topic, partition, the block
TimedBlock = tuple[TopicBlock, int]  # a block, and the time at which the next one begins


class ArchiveFollower:
    """Reads an archive as if it happened: its clock is the newest time stamp that was read."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self.name = f"archive {self._path}"
        self._next: dict[tuple[str, int], int] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._published: dict[str, int] = {}  # snapshot files by when they were written
        self._clock_ms = 0
        self._held: list[tuple[str, WeightedRecord]] = []  # read, and of a time to which other logs have not been read
        self._running: Iterator[TimedBlock] | None = None

    def close(self) -> None:
        """Nothing is held open between polls."""
        self._running = None

    def poll(self) -> LogUpdate:
        """Return the next records, or what was appended since the last poll; SourceAway when it cannot be read."""
        entries: defaultdict[str, list[WeightedRecord]] = defaultdict(list)
        read, left, until_ms = self._held, LOOK_BYTES, END
        try:
            archive = Archive.open(self._path)
            self._running = self._running or self._merged(archive)
            while left > 0:
                timed = next(self._running, None)
                if timed is None:
                    self._running, until_ms = None, END
                    break
                (topic, partition, block), until_ms = timed
                read += [(topic, WeightedRecord(partition, record)) for record in block.records()]
                left -= len(block.values) + 1
                self._next[topic, partition] = block.next_offset
            self._held = [held for held in read if held[1].record.timestamp > until_ms]
            for topic, entry in read:
                if entry.record.timestamp <= until_ms:
                    entries[topic].append(entry)
                    self._clock_ms = max(self._clock_ms, entry.record.timestamp)
            published = list(self._snapshots()) if self._running is None else []
            if published:
                entries["parameters"] += published
        except (ArchiveError, OSError) as error:
            self._running = None
            raise SourceAway(f"{self.name} cannot be read: {error}") from error
        ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), offset in self._next.items():
            ends[topic][partition] = offset
        there = {*archive.topics(), *(["parameters"] if self._published else [])}
        return LogUpdate(
            self._clock_ms,
            entries,
            ends,
            missing=tuple(topic for topic in ("samples", "parameters") if topic not in there),
            behind=self._running is not None,
            sampled=(len(ends.get("impressions", {})),) * 2,
            counted=TOPICS,
        )

    def _snapshots(self) -> Iterator[WeightedRecord]:
        """Yield what an embedded pipeline has published since the last poll: a file for each bucket, and no topic."""
        for file in sorted(self._path.glob("snapshots/*.snapshot")):
            written = file.stat().st_mtime_ns
            if self._published.get(file.name) == written:
                continue
            data, self._published[file.name] = file.read_bytes(), written
            try:
                snapshot = load_snapshot(data)
                for part in split_snapshot(snapshot):
                    yield WeightedRecord(0, LogRecord(-1, snapshot.published_at_ms, None, encode(part)))
            except SnapshotCorrupt:
                yield WeightedRecord(0, LogRecord(-1, 0, None, data))  # for the page to count

    def _merged(self, archive: Archive) -> Iterator[TimedBlock]:
        """Yield new blocks of all topics, the one that begins first next, each with when the one after it begins."""
        logs = [(topic, log) for topic in TOPICS if topic in archive.topics() for log in archive.logs(topic)]
        blocks = merge(*(self._blocks(topic, log) for topic, log in logs if self._grown(topic, log)), key=_begins_ms)
        for block, following in pairwise(chain(blocks, [None])):
            assert block is not None
            yield block, END if following is None else _begins_ms(following)

    def _blocks(self, topic: str, log: ArchivedLog) -> Iterator[TopicBlock]:
        for block in log.read(self._next.get((topic, log.partition), 0)):
            yield topic, log.partition, block

    def _grown(self, topic: str, log: ArchivedLog) -> bool:
        """Return whether a partition's files have changed since they were last read."""
        size = log.size_bytes
        before, self._sizes[topic, log.partition] = self._sizes.get((topic, log.partition)), size
        return size != before


def _begins_ms(block: TopicBlock) -> int:
    return int(block[2].timestamps_ms[0])
