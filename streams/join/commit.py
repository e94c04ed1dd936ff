"""A join's standing as two committed offsets with their metadata.

Kafka keeps up to 4,096 bytes beside a committed offset. The offset is that of the oldest event still needed; the
metadata says what a restart must know besides the log: how far it was joined and what has been written so far.
"""

from __future__ import annotations

import json
from base64 import b85decode, b85encode
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from zlib import compress, decompress
from zlib import error as ZlibError

from schemas.json_text import parse_json
from streams.join.clock import NEVER, HorizonEra, LogClock, LogPosition
from streams.join.eras import RuleEra
from streams.join.ledger import Ledger

MAX_METADATA_BYTES = 4096
MAX_RULES_BYTES = 3000  # a hundred buckets take about 1,000
_VERSION = 1


class BadCommit(ValueError):
    """Commit metadata that this version cannot read."""


class Frozen(NamedTuple):
    """Lists shown before ``before_ms`` at impressions offsets below ``below`` were closed under other rules."""

    before_ms: int
    below: int


NOTHING_FROZEN = Frozen(NEVER, 0)


@dataclass(frozen=True, slots=True)
class LogPart:
    """Where one log stands: reread from ``place``, silently up to ``processed``."""

    place: LogPosition
    processed: int
    floor: int  # now; an idle log is further than its records say
    eras: list[HorizonEra]

    @classmethod
    def of(cls, log: LogClock, place: LogPosition) -> LogPart:
        """Return the standing of ``log``, to be reread from ``place``."""
        return cls(place, log.offset, log.floor, log.eras_from(place.offset))

    @classmethod
    def beginning(cls, offset: int) -> LogPart:
        """Return the standing of a log of which nothing is known before ``offset``."""
        return cls(LogPosition(offset, NEVER, NEVER), offset, NEVER, [])


@dataclass(frozen=True, slots=True)
class Commit:
    """Where one partition stands: lists shown before ``emitted_before`` are out with every click so far."""

    impressions: LogPart
    clicks: LogPart
    rules: str
    emitted_before: int = NEVER
    frozen: Frozen = NOTHING_FROZEN
    ledger: Ledger = field(default_factory=Ledger)
    accept: str = ""  # the rules themselves, to understand later what was refused under them; "" when not known
    past: tuple[RuleEra, ...] = ()  # rules before, of events that are still reread

    @classmethod
    def beginning(cls, rules: str, *, impressions: int = 0, clicks: int = 0) -> Commit:
        """Return the commit of a join that has seen nothing and starts at these offsets."""
        return cls(LogPart.beginning(impressions), LogPart.beginning(clicks), rules)

    def encode(self, topic_ids: tuple[str, str] = ("", "")) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return offset and metadata for the impressions and for the clicks partition."""
        shared = {"emitted": self.emitted_before, "frozen": list(self.frozen), "rules": self.rules}
        ledger = {"ledger": list(self.ledger.counts().values())}
        return (
            _encode(self.impressions, topic_ids[0], shared | ledger),
            _encode(self.clicks, topic_ids[1], self._rules()),
        )

    def _rules(self) -> dict[str, object]:
        """Return the rules as they are committed, without what finds no room: then a change of them is judged anew."""
        for past in (self.past, ()):
            packed = _pack(self.accept, past)
            if self.accept and len(packed) <= MAX_RULES_BYTES:
                return {"accept": packed}
        return {}

    @classmethod
    def decode(cls, impressions: tuple[int, str], clicks: tuple[int, str]) -> tuple[Commit, tuple[str, str]]:
        """Return the commit and the topic ids behind two committed offsets and their metadata.

        >>> commit = Commit.beginning("r", impressions=7, clicks=3)
        >>> Commit.decode(*commit.encode(("a", "b"))) == (commit, ("a", "b"))
        True
        """
        try:
            first, second = parse_json(impressions[1]), parse_json(clicks[1])
            if first["v"] != _VERSION or second["v"] != _VERSION:
                raise BadCommit(f"commit metadata of version {first['v']}; this is version {_VERSION}")
            commit = cls(
                _decode(impressions[0], first),
                _decode(clicks[0], second),
                first["rules"],
                first["emitted"],
                Frozen(*first["frozen"]),
                Ledger(*first["ledger"]),
                *_unpack(second.get("accept", "")),
            )
            return commit, (first["topic"], second["topic"])
        except (KeyError, TypeError, ValueError, ZlibError) as error:
            if isinstance(error, BadCommit):
                raise
            raise BadCommit(
                f"offsets {impressions[0]} and {clicks[0]} were not committed by a join ({impressions[1]!r:.80}); "
                "was the group's offset set by another tool?"
            ) from error


@lru_cache(maxsize=16)  # the same for every partition and commit
def _pack(accept: str, past: tuple[RuleEra, ...]) -> str:
    return b85encode(compress(json.dumps([accept, past], separators=(",", ":")).encode())).decode()


def _unpack(packed: str) -> tuple[str, tuple[RuleEra, ...]]:
    if not packed:
        return "", ()
    accept, eras = parse_json(decompress(b85decode(packed)))
    if not isinstance(accept, str):
        raise BadCommit(f"commit metadata with rules that are no string: {accept!r:.80}")
    return accept, tuple(RuleEra(*era) for era in eras)


def _encode(part: LogPart, topic_id: str, more: dict[str, object]) -> tuple[int, str]:
    entry = {
        **{"v": _VERSION, "topic": topic_id, "to": part.processed, "clock": part.place.clock},
        **{"floor": part.place.floor, "now": part.floor, "eras": part.eras},
    }
    metadata = json.dumps(entry | more, separators=(",", ":"))
    if len(metadata) > MAX_METADATA_BYTES:
        raise BadCommit(
            f"{len(metadata)} bytes of commit metadata, more than the {MAX_METADATA_BYTES} that Kafka keeps; "
            f"wait or lateness changed {len(part.eras)} times within one horizon"
        )
    return part.place.offset, metadata


def _decode(offset: int, entry: dict[str, int]) -> LogPart:
    eras = [HorizonEra(*era) for era in entry["eras"]]  # type: ignore[attr-defined]
    return LogPart(LogPosition(offset, entry["clock"], entry["floor"]), entry["to"], entry["now"], eras)
