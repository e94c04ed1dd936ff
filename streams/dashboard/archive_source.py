"""Looks at archived topics, in the order of the records' own time; what is appended is followed."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from pathlib import Path

from schemas.codec import encode
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.logs import Archive, ArchivedLog, ArchiveError, LogBlock, LogRecord, SourceAway
from streams.parameters import SnapshotCorrupt, load_snapshot, split_snapshot
from streams.settings import TOPICS

LOOK_BYTES = 8 << 20
END = (1 << 63) - 1

Blocks = tuple[int, int, str, LogBlock]  # first time stamp, number of the log, topic, the block


class ArchiveFollower:
    """Reads an archive as if it happened: its clock is the newest time stamp that was read."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._next: dict[tuple[str, int], int] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._published: dict[str, int] = {}  # snapshot files by when they were written
        self._clock_ms = 0
        self._held: list[tuple[str, WeightedRecord]] = []  # read, and of a time to which other logs have not been read
        self._running: Iterator[tuple[str, int, LogBlock, int]] | None = None

    @property
    def name(self) -> str:
        """The directory."""
        return f"archive {self._path}"

    def close(self) -> None:
        """Nothing is held open between polls."""
        self._running = None

    def poll(self) -> LogUpdate:
        """Return the next records, or what was appended since the last poll; SourceAway when it cannot be read."""
        entries: dict[str, list[WeightedRecord]] = {}
        found: list[tuple[str, WeightedRecord]] = self._held
        left, until_ms = LOOK_BYTES, END
        try:
            archive = Archive.open(self._path)
            if self._running is None:
                self._running = self._merged(archive)
            while left > 0:
                block_of = next(self._running, None)
                if block_of is None:
                    self._running, until_ms = None, END
                    break
                topic, partition, block, until_ms = block_of
                found += [(topic, WeightedRecord(partition, record)) for record in block.records()]
                left -= len(block.values) + 1
                self._next[topic, partition] = block.next_offset
            self._held = [one for one in found if one[1].record.timestamp > until_ms]
            for topic, entry in found:
                if entry.record.timestamp <= until_ms:
                    entries.setdefault(topic, []).append(entry)
                    self._clock_ms = max(self._clock_ms, entry.record.timestamp)
            if self._running is None:
                published = self._snapshots()
                if published:
                    entries.setdefault("parameters", []).extend(published)
        except (ArchiveError, OSError) as error:
            self._running = None
            raise SourceAway(f"{self.name} cannot be read: {error}") from error
        ends: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._next.items():
            ends.setdefault(topic, {})[partition] = offset
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

    def _snapshots(self) -> list[WeightedRecord]:
        """Return what an embedded pipeline has published since the last poll: a file for each bucket, and no topic."""
        found = []
        for file in sorted(self._path.glob("snapshots/*.snapshot")):
            written = file.stat().st_mtime_ns
            if self._published.get(file.name) == written:
                continue
            data, self._published[file.name] = file.read_bytes(), written
            try:
                snapshot = load_snapshot(data)
                found += [
                    WeightedRecord(0, LogRecord(-1, snapshot.published_at_ms, None, encode(part)))
                    for part in split_snapshot(snapshot)
                ]
            except SnapshotCorrupt:
                found.append(WeightedRecord(0, LogRecord(-1, 0, None, data)))  # for the page to count
        return found

    def _merged(self, archive: Archive) -> Iterator[tuple[str, int, LogBlock, int]]:
        """Yield new blocks of all topics, the one that begins first next, each with when the one after it begins."""
        logs = [(topic, log) for topic in TOPICS if topic in archive.topics() for log in archive.logs(topic)]
        grown = [one for one in logs if self._grown(*one)]
        reading = [log.read(self._next.get((topic, log.partition), 0)) for topic, log in grown]
        queue: list[Blocks] = []
        for number, blocks in enumerate(reading):
            first = next(blocks, None)
            if first is not None:
                queue.append((int(first.timestamps_ms[0]), number, grown[number][0], first))
        heapify(queue)
        while queue:
            _, number, topic, block = queue[0]
            after = next(reading[number], None)
            if after is None:
                heappop(queue)
            else:
                heapreplace(queue, (int(after.timestamps_ms[0]), number, topic, after))
            yield topic, grown[number][1].partition, block, queue[0][0] if queue else END

    def _grown(self, topic: str, log: ArchivedLog) -> bool:
        """Return whether a partition's files have changed since they were last read."""
        size = log.size_bytes
        before, self._sizes[topic, log.partition] = self._sizes.get((topic, log.partition)), size
        return size != before
