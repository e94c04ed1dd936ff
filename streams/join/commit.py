"""Where a join stands, as two committed offsets with their metadata.

Kafka keeps up to 4,096 bytes beside a committed offset. The offset is that of the oldest event still needed; the
metadata says what a restart must know besides the log: how far it was joined, what has been written so far, and by
which rules events were judged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.json_text import parse_json
from streams.settings import LogPair

MAX_METADATA_BYTES = 4096
VERSION = 2
NEVER = -(1 << 61)  # before every event; subtracting a horizon from it does not overflow


class BadCommit(ValueError):
    """A commit that this version cannot read or must not go on from."""


NO_TOPICS = LogPair("", "")


@dataclass(slots=True)
class Ledger:
    """What became of every event of one partition; two sums must hold, and ``balanced`` says whether they do."""

    impressions: int = 0
    lists: int = 0  # net: a correction takes one back and adds one
    open: int = 0
    duplicates: int = 0
    too_late: int = 0
    dead_impressions: int = 0
    clicks: int = 0
    used: int = 0
    repeated: int = 0
    waiting: int = 0
    late: int = 0
    dead_clicks: int = 0
    corrections: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every event that came in is in exactly one of the other counts."""
        return (
            self.impressions == self.lists + self.open + self.duplicates + self.too_late + self.dead_impressions
            and self.clicks == self.used + self.repeated + self.waiting + self.late + self.dead_clicks
        )

    def counts(self) -> dict[str, int]:
        """Return the counts by name, in a fixed order."""
        return {name: getattr(self, name) for name in self.__slots__}


class LogPosition(NamedTuple):
    """A position in a log: the next offset, and the clock and floor of everything before it."""

    offset: int
    clock: int  # the second-largest time stamp over distinct keys
    floor: int
    first: int = NEVER  # the largest
    first_key: str = ""  # a hash of the key that it came with


class RuleEra(NamedTuple):
    """From this offset on, events were judged by the rules of this hash."""

    offset: int
    rules: str


class FloorMark(NamedTuple):
    """From this offset on, no lower floor than this held, although no record says so."""

    offset: int
    floor: int


@dataclass(frozen=True, slots=True)
class LogPart:
    """Where one log stands: reread from ``restart``, silently up to ``processed``."""

    restart: LogPosition
    processed: int
    floor: int  # now; an idle log is further than its records say
    eras: list[RuleEra]
    marks: list[FloorMark] = field(default_factory=list)

    @classmethod
    def beginning(cls, offset: int, eras: list[RuleEra] | None = None) -> LogPart:
        """Return the standing of a log of which nothing is known before ``offset``, with the eras that lie ahead."""
        return cls(LogPosition(offset, NEVER, NEVER), offset, NEVER, eras or [])


@dataclass(frozen=True, slots=True)
class Commit:
    """Where one partition stands: lists shown before ``emitted_before`` are out with every click so far."""

    impressions: LogPart
    clicks: LogPart
    lists_from: int = 0  # impressions before it, from the restart on, only hold their ids
    emitted_before: int = NEVER
    dismissed_before: int = NEVER  # clicks without a list that could not be shown later than this are out
    time_ms: int = NEVER  # what time it was at least
    ledger: Ledger = field(default_factory=Ledger)
    held_from: tuple[int, int] | None = None  # what lists refused, from this one and this click on, is not written

    @classmethod
    def beginning(cls, *, impressions: int = 0, clicks: int = 0) -> Commit:
        """Return the commit of a join that has seen nothing and starts at these offsets."""
        return cls(LogPart.beginning(impressions), LogPart.beginning(clicks), impressions)

    @property
    def logs(self) -> LogPair[LogPart]:
        """Both logs."""
        return LogPair(self.impressions, self.clicks)

    @property
    def processed(self) -> LogPair[int]:
        """The offsets up to which both logs are joined."""
        return LogPair(self.impressions.processed, self.clicks.processed)

    def encode(
        self, topic_ids: LogPair[str] = NO_TOPICS, *, most_bytes: int = MAX_METADATA_BYTES
    ) -> LogPair[tuple[int, str]]:
        """Return the offset to commit on each log, and its metadata."""
        shared: dict[str, object] = {
            "lists": self.lists_from,
            "emitted": self.emitted_before,
            "dismissed": self.dismissed_before,
            "time": self.time_ms,
            "ledger": list(self.ledger.counts().values()),
        }
        if self.held_from is not None:
            shared["held"] = self.held_from
        return LogPair(
            _encode(self.impressions, topic_ids.impressions, shared, most_bytes),
            _encode(self.clicks, topic_ids.clicks, {}, most_bytes),
        )

    @classmethod
    def decode(cls, impressions: tuple[int, str], clicks: tuple[int, str]) -> tuple[Commit, LogPair[str]]:
        """Return the commit and the topic ids behind two committed offsets and their metadata.

        The metadata may end with a zero, as confluent-kafka commits it.

        >>> commit = Commit.beginning(impressions=7, clicks=3)
        >>> Commit.decode(*commit.encode(LogPair("a", "b"))) == (commit, LogPair("a", "b"))
        True
        >>> Commit.decode(*((at, f"{text}\\0") for at, text in commit.encode()))[0] == commit
        True
        """
        try:
            first, second = (parse_json(entry[1].rstrip("\0")) for entry in (impressions, clicks))
            if first["v"] != VERSION or second["v"] != VERSION:
                raise BadCommit(f"commit metadata of version {first['v']}; this is version {VERSION}")
            held = first.get("held")
            commit = cls(
                _decode(impressions[0], first),
                _decode(clicks[0], second),
                first["lists"],
                first["emitted"],
                first["dismissed"],
                first["time"],
                Ledger(*first["ledger"]),
                None if held is None else (held[0], held[1]),
            )
            return commit, LogPair(first["topic"], second["topic"])
        except BadCommit:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise BadCommit(
                f"offsets {impressions[0]} and {clicks[0]} were not committed by a join ({impressions[1]!r:.80}); "
                "was the group's offset set by another tool?"
            ) from error


def _encode(part: LogPart, topic_id: str, more: dict[str, object], most_bytes: int) -> tuple[int, str]:
    entry = {
        "v": VERSION,
        "topic": topic_id,
        "to": part.processed,
        "clock": part.restart.clock,
        "first": [part.restart.first, part.restart.first_key],
        "floor": part.restart.floor,
        "now": part.floor,
        "eras": part.eras,
        "marks": part.marks,
    }
    metadata = json.dumps(entry | more, separators=(",", ":"))
    if len(metadata) > most_bytes:
        raise BadCommit(
            f"{len(metadata)} bytes of commit metadata, more than the {most_bytes} that Kafka keeps; "
            f"the settings changed {len(part.eras)} times within three horizons"
        )
    return part.restart.offset, metadata


def _decode(offset: int, entry: dict[str, Any]) -> LogPart:
    return LogPart(
        LogPosition(offset, entry["clock"], entry["floor"], *entry["first"]),
        entry["to"],
        entry["now"],
        [RuleEra(*era) for era in entry["eras"]],
        [FloorMark(*mark) for mark in entry["marks"]],
    )
