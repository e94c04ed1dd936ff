"""What a poll of a log finds, whatever the log is made of; SourceAway from a poll means try later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from streams.logs import LogRecord


class WeightedRecord(NamedTuple):
    """One record of a log that may stand for several."""

    partition: int
    record: LogRecord
    weight: float = 1.0  # so many records it stands for: others like it were passed over


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """What a poll found since the poll before; topics go by their names in ``TOPICS``."""

    at_ms: int  # the log's now: wall time for a live one, its newest record for an archive
    entries: dict[str, list[WeightedRecord]] = field(default_factory=dict)
    ends: dict[str, dict[int, int]] = field(default_factory=dict)  # topic -> partition -> next offset
    skipped: dict[str, int] = field(default_factory=dict)  # offsets passed over, because there were too many to read
    missing: tuple[str, ...] = ()  # topics that are not there, by their full names
    refused: tuple[str, ...] = ()  # topics that must not be read
    behind: bool = False  # history is still being read; poll again at once
    sampled: tuple[int, int] = (0, 0)  # partitions of events that are read, of how many
    gap: tuple[int, int] | None = None  # the time over which events were passed over
    share: float = 1.0  # of the samples, what was read
    history_share: float = 1.0  # and of those before the first poll
    counted: tuple[str, ...] = ("parameters", "dead-letters")  # of which every record is in ``entries``
    past: list[tuple[int, dict[str, int]]] = field(default_factory=list)  # time -> topic -> offsets before it, rising
