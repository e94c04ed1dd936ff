"""Where one log of a join stands: a place in it, its clock, and the rules that hold from each offset on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

NEVER = -(1 << 61)  # before every event; subtracting a horizon from it does not overflow


class BadCommit(ValueError):
    """A commit that this version cannot read or must not go on from."""


class LogPosition(NamedTuple):
    """A place in a log: the next offset, and the clock and floor of everything before it."""

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
    """Where one log stands: reread from ``place``, silently up to ``processed``."""

    place: LogPosition
    processed: int
    floor: int  # now; an idle log is further than its records say
    eras: list[RuleEra]
    marks: list[FloorMark] = field(default_factory=list)

    @classmethod
    def beginning(cls, offset: int, eras: list[RuleEra] | None = None) -> LogPart:
        """Return the standing of a log of which nothing is known before ``offset``, with the eras that lie ahead."""
        return cls(LogPosition(offset, NEVER, NEVER), offset, NEVER, eras or [])


def canonical_rules(judging: int, horizon_ms: int, accept: Mapping[str, Any]) -> bytes:
    """Return rules in the one form that their hash is made of."""
    return json.dumps(
        {"judging": judging, "horizon_ms": horizon_ms, **accept}, sort_keys=True, separators=(",", ":")
    ).encode()


def rules_hash(content: bytes) -> str:
    """Return the name of rules in their canonical form."""
    return sha256(content).hexdigest()[:16]
