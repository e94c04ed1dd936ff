"""Ranges of a log as people write them (times, offsets), and as offsets of each partition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from streams.logs.source import LogSource, RangeError
from streams.settings import TOPICS

_PLACE = re.compile(r"([a-z-]+):([0-9]{1,9}):([0-9]{1,18})")


class Mark(NamedTuple):
    """A time for all logs, or an offset of one partition."""

    time_ms: int | None = None
    topic: str = ""
    partition: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}" if self.time_ms is None else time_text(self.time_ms)


def parse_mark(text: str) -> Mark:
    """Return a time (ISO 8601, UTC unless it says otherwise) or an offset (topic:partition:offset).

    >>> parse_mark("2026-01-02T03:04"), parse_mark("samples:0:120").offset
    (Mark(time_ms=1767323040000, topic='', partition=0, offset=0), 120)
    """
    if match := _PLACE.fullmatch(text):
        topic, partition, offset = match.groups()
        if topic not in TOPICS:
            raise RangeError(f"no topic is called {topic!r}; there are {', '.join(TOPICS)}")
        return Mark(None, topic, int(partition), int(offset))
    return Mark(parse_time(text))


def parse_time(text: str) -> int:
    """Return a time in milliseconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise RangeError(
            f"{text!r} is neither a time (2026-01-31T12:00, UTC) nor an offset (topic:partition:offset)"
        ) from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def time_text(time_ms: int) -> str:
    """Return a time as people read it.

    >>> time_text(1767323040000)
    '2026-01-02T03:04:00Z'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Range:
    """From the first of these marks to before the second; without one, from the beginning or to the end."""

    start: Sequence[Mark] = ()
    stop: Sequence[Mark] = ()

    def of(self, source: LogSource, topic: str, partition: int, notes: list[str]) -> tuple[int, int]:
        """Return the offsets of one partition; what the log no longer has is refused if named, else noted."""
        first, end = source.bounds(topic, partition)
        name = f"{topic} {partition} on {source.where()}"
        start, stop = (self._offset(marks, source, topic, partition) for marks in (self.start, self.stop))
        exact = any((mark.topic, mark.partition) == (topic, partition) for mark in self.start)
        if start is not None and exact and start < first:
            raise RangeError(f"{name} begins at offset {first}; {start} to {first - 1} are gone, or were not archived")
        if stop is not None and stop > end:
            raise RangeError(f"{name} ends at offset {end}; {end} to {stop - 1} are not there")
        if first > 0 and (start is None or start <= first):
            notes.append(f"{name} begins at offset {first}: what was before is gone, or was not archived")
        start = first if start is None else max(first, start)
        return start, max(start, end if stop is None else stop)

    def _offset(self, marks: Sequence[Mark], source: LogSource, topic: str, partition: int) -> int | None:
        for mark in marks:
            if (mark.topic, mark.partition) == (topic, partition):
                return mark.offset
        for mark in marks:
            if mark.time_ms is not None:
                return source.offset_at(topic, partition, mark.time_ms)
        return None

    def __str__(self) -> str:
        words = [f"{name} {mark}" for name, marks in (("from", self.start), ("to", self.stop)) for mark in marks]
        return " ".join(words) or "the whole log"
