"""The newest part of a log, as if there were no more of it."""

from __future__ import annotations

from collections.abc import Iterator

from streams.logs import LogBlock, LogSource


class RecentLog:
    """A source whose partitions begin at a time."""

    def __init__(self, source: LogSource, since_ms: int | None) -> None:
        self._source, self._since_ms = source, since_ms

    @property
    def address(self) -> str:
        """What it is opened by."""
        return self._source.address

    def where(self) -> str:
        """Return how people would name the place."""
        return self._source.where()

    def has(self, topic: str) -> bool:
        """Return whether the topic is there."""
        return self._source.has(topic)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._source.partitions(topic)

    def topic_id(self, topic: str) -> str:
        """Return which incarnation of a topic it is."""
        return self._source.topic_id(topic)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset from the time on, and the end."""
        first, end = self._source.bounds(topic, partition)
        if self._since_ms is None or first == end:
            return first, end
        return min(max(first, self._source.offset_at(topic, partition, self._since_ms)), end), end

    def settle(self, topic: str, partition: int, *, within_s: float = 20.0) -> None:
        """Wait until all that was written can be read."""
        self._source.settle(topic, partition, within_s=within_s)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int:
        """Return the first offset stamped at or after ``time_ms``, or the end."""
        return self._source.offset_at(topic, partition, time_ms)

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[LogBlock]:
        """Yield the blocks of a range."""
        return self._source.read(topic, partition, start, stop)

    def close(self) -> None:
        """Leave the source to who opened it."""
