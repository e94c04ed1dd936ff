"""Topics of a broker copied to an archive: whole or a range of time, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from rich.progress import Progress

from streams.logs.archive import BLOCK_BYTES, Archive, ArchiveError, LogWriter
from streams.logs.block import LogBlock
from streams.logs.job.kafka_source import KafkaSource
from streams.logs.source import RangeError
from streams.settings import TOPICS, Settings


class Copied(NamedTuple):
    """What a copy added to one partition of an archive, or sent from it."""

    topic: str
    partition: int
    start: int
    end: int
    records: int


def copy(
    settings: Settings,
    archive: Archive,
    *,
    topics: Sequence[str] = TOPICS,
    from_ms: int | None = None,
    to_ms: int | None = None,
    codec: str | None = None,
    progress: Progress | None = None,
) -> list[Copied]:
    """Copy committed records of ``topics`` into ``archive`` up to where each ends now; again, it goes on from there.

    A time stands for the first record that is stamped at or after it. ``from_ms`` matters only for partitions of which
    nothing is archived yet.
    """
    source = KafkaSource(settings)
    unknown = [topic for topic in topics if topic not in TOPICS]
    if unknown:
        raise RangeError(f"no topic is called {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    done = []
    with archive.writing(), closing(source), progress or Progress(disable=True) as shown:
        for topic in topics:
            partitions = source.partitions(topic)
            archive.add_topic(
                topic,
                partitions=partitions,
                topic_id=source.topic_id(topic),
                topic=settings.topic_prefix + topic,
            )
            for partition in range(partitions):
                kept_from, stop = source.bounds(topic, partition)
                first = kept_from if from_ms is None else max(kept_from, source.offset_at(topic, partition, from_ms))
                stop = stop if to_ms is None else min(stop, source.offset_at(topic, partition, to_ms))
                with closing(LogWriter(archive.log(topic, partition), start=first, codec=codec)) as writer:
                    if writer.next_offset < kept_from:
                        raise ArchiveError(
                            f"{writer.log.path} ends at offset {writer.next_offset}, but {source.where()} has deleted "
                            f"{topic} {partition} up to {kept_from}: records between are lost to this archive; go on "
                            "in another directory"
                        )
                    done.append(_copy(source, topic, writer, stop, shown))
    return done


def _copy(source: KafkaSource, topic: str, writer: LogWriter, stop: int, progress: Progress) -> Copied:
    partition, start = writer.log.partition, writer.next_offset
    task = progress.add_task(f"{topic} {partition}", total=max(0, stop - start))
    gathered = Gathered(writer)
    for block in source.read(topic, partition, start, stop):
        gathered.add(block)
        progress.update(task, completed=block.next_offset - start)
    gathered.flush()
    writer.sync()
    return Copied(topic, partition, start, writer.next_offset, gathered.records)


class Gathered:
    """Small blocks in, blocks of the archive's size out."""

    def __init__(self, writer: LogWriter) -> None:
        self.records = 0
        self._writer, self._bytes = writer, 0
        self._waiting: list[LogBlock] = []

    def add(self, block: LogBlock) -> None:
        """Take one more block; write when there is enough."""
        self.records += len(block)
        self._waiting.append(block)
        self._bytes += len(block.values)
        if self._bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._writer.append(LogBlock.concat(self._waiting))
        self._waiting, self._bytes = [], 0
