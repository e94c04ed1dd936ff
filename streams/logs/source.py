"""Logged topics wherever they lie: blocks of a range of each partition; no group is ever touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streams.logs.archive import Archive
from streams.logs.block import LogBlock

SETTLED_WITHIN_S = 20.0  # a killed join holds its transaction open that long at most


class RangeError(ValueError):
    """A range of a log that is empty, or that the log no longer has."""


class TransactionOpen(RuntimeError):
    """Records that nobody can read yet, since a transaction that stands before them is open."""


class LogSource(Protocol):
    """Where logged topics are, by their plain names such as ``impressions``."""

    @property
    def address(self) -> str:
        """What ``open_source`` opens it by."""

    def where(self) -> str:
        """Return how people would name it."""
        return self.address

    def has(self, topic: str) -> bool:
        """Return whether the topic is there."""

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""

    def topic_id(self, topic: str) -> str:
        """Return which incarnation of a topic it is."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that a partition still has, and its end."""

    def settle(self, topic: str, partition: int, *, within_s: float = SETTLED_WITHIN_S) -> None:
        """Wait until all that was written to a partition before can be read, or raise TransactionOpen."""
        return

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the first offset stamped at or after ``time_ms``, or the end."""

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[LogBlock]:
        """Yield the blocks of a range."""

    def close(self) -> None:
        """Let go of connections."""
        return


class ArchiveSource(LogSource):
    """The topics of an archive, which holds only committed records, and keeps nothing open."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    @property
    def address(self) -> str:
        """The directory."""
        return str(self.archive.path)

    def has(self, topic: str) -> bool:
        """Return whether the topic was archived."""
        return topic in self.archive.topics()

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self.archive.info(topic).partitions

    def topic_id(self, topic: str) -> str:
        """Return the id that the topic had on its broker."""
        return self.archive.info(topic).topic_id

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that was archived, and the end."""
        log = self.archive.log(topic, partition)
        return log.start, log.end

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the first offset stamped at or after ``time_ms``, or the end."""
        log = self.archive.log(topic, partition)
        end = log.start
        for block in log.read():
            late = block.timestamps_ms >= time_ms
            if late.any():
                return int(block.offsets[late][0])
            end = block.next_offset
        return end

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[LogBlock]:
        """Yield the blocks of a range."""
        return self.archive.log(topic, partition).read(start, stop)


class SourceAway(ConnectionError):
    """The place that holds the snapshots does not answer."""
