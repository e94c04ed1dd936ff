"""Where a join stands, as two committed offsets with their metadata.

Kafka keeps up to 4,096 bytes beside a committed offset. The offset is that of the oldest event still needed; the
metadata says what a restart must know besides the log: how far it was joined, what has been written so far, and by
which rules events were judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.json_text import parse_json
from streams.join.first_commit import decode_first
from streams.join.ledger import Ledger
from streams.join.log_part import NEVER, BadCommit, FloorMark, LogPart, LogPosition, RuleEra

MAX_METADATA_BYTES = 4096
VERSION = 2


@dataclass(frozen=True, slots=True)
class Commit:
    """Where one partition stands: lists shown before ``emitted_before`` are out with every click so far."""

    impressions: LogPart
    clicks: LogPart
    lists_from: int = 0  # impressions before it, from the place on, only hold their ids
    emitted_before: int = NEVER
    dismissed_before: int = NEVER  # clicks without a list that could not be shown later than this are out
    time_ms: int = NEVER  # what time it was at least
    ledger: Ledger = field(default_factory=Ledger)
    held_from: tuple[int, int] | None = None  # what lists refused, from this one and this click on, is not written
    rules: Mapping[str, bytes] = field(default_factory=dict)  # by hash, where the commit of an older version held them
    problem: str = ""  # why no join may go on from here

    @classmethod
    def beginning(cls, *, impressions: int = 0, clicks: int = 0) -> Commit:
        """Return the commit of a join that has seen nothing and starts at these offsets."""
        return cls(LogPart.beginning(impressions), LogPart.beginning(clicks), impressions)

    def encode(
        self, topic_ids: tuple[str, str] = ("", ""), *, most_bytes: int = MAX_METADATA_BYTES
    ) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return offset and metadata for the impressions and for the clicks partition."""
        shared: dict[str, object] = {
            "lists": self.lists_from,
            "emitted": self.emitted_before,
            "dismissed": self.dismissed_before,
            "time": self.time_ms,
            "ledger": list(self.ledger.counts().values()),
        }
        if self.held_from is not None:
            shared["held"] = self.held_from
        return (
            _encode(self.impressions, topic_ids[0], shared, most_bytes),
            _encode(self.clicks, topic_ids[1], {}, most_bytes),
        )

    @classmethod
    def decode(cls, impressions: tuple[int, str], clicks: tuple[int, str]) -> tuple[Commit, tuple[str, str]]:
        """Return the commit and the topic ids behind two committed offsets and their metadata.

        The metadata may end with a zero, as confluent-kafka commits it.

        >>> commit = Commit.beginning(impressions=7, clicks=3)
        >>> Commit.decode(*commit.encode(("a", "b"))) == (commit, ("a", "b"))
        True
        >>> Commit.decode(*((at, f"{text}\\0") for at, text in commit.encode(("a", "b"))))[0] == commit
        True
        """
        try:
            first, second = (parse_json(entry[1].rstrip("\0")) for entry in (impressions, clicks))
            if first["v"] not in (1, VERSION) or second["v"] != first["v"]:
                raise BadCommit(f"commit metadata of version {first['v']}; this is version {VERSION}")
            ids = first["topic"], second["topic"]
            if first["v"] == 1:
                return cls(**decode_first((impressions[0], first), (clicks[0], second))), ids
            shared = first["lists"], first["emitted"], first["dismissed"], first["time"]
            ledger, held = Ledger(*first["ledger"]), first.get("held")
            held_from = None if held is None else (held[0], held[1])
            return cls(_decode(impressions[0], first), _decode(clicks[0], second), *shared, ledger, held_from), ids
        except (LookupError, TypeError, ValueError) as error:
            if isinstance(error, BadCommit):
                raise
            raise BadCommit(
                f"offsets {impressions[0]} and {clicks[0]} were not committed by a join ({impressions[1]!r:.80}); "
                "was the group's offset set by another tool?"
            ) from error


def _encode(part: LogPart, topic_id: str, more: dict[str, object], most_bytes: int) -> tuple[int, str]:
    entry = {
        "v": VERSION,
        "topic": topic_id,
        "to": part.processed,
        "clock": part.place.clock,
        "first": [part.place.first, part.place.first_key],
        "floor": part.place.floor,
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
    return part.place.offset, metadata


def _decode(offset: int, entry: dict[str, Any]) -> LogPart:
    return LogPart(
        LogPosition(offset, entry["clock"], entry["floor"], *entry["first"]),
        entry["to"],
        entry["now"],
        [RuleEra(*era) for era in entry["eras"]],
        [FloorMark(*mark) for mark in entry["marks"]],
    )
