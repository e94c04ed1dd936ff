"""The newest part of a log, as if there were no more of it."""

from __future__ import annotations

from typing import Any, cast

from streams.logs import LogSource


def recent_log(source: LogSource, since_ms: int | None) -> LogSource:
    """Return a source whose partitions begin at a time; its owner closes the one that it was made of."""
    return source if since_ms is None else cast(LogSource, _RecentLog(source, since_ms))


class _RecentLog:
    def __init__(self, source: LogSource, since_ms: int) -> None:
        self._source, self._since_ms = source, since_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset from the time on, and the end."""
        first, end = self._source.bounds(topic, partition)
        if first == end:
            return first, end
        return min(max(first, self._source.offset_at(topic, partition, self._since_ms)), end), end
