"""The rules of a join, by era: what a list must keep, and how long it may change.

Content rules (buckets, K, d, scales) are those in force at the list's offset, for ever; time rules (the horizon H and
how far an event may lie ahead of its record) those at the event's own offset. So a change of settings rewrites nothing.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.json_text import parse_json
from schemas.records import Rules
from streams.events import Acceptance
from streams.join.commit import BadCommit, Commit, LogPart, RuleEra
from streams.settings import LogPair, Settings

MOST_ERAS = 32  # that a commit can name


class JoinRules:
    """Everything but the logs that decides what becomes of an event: limits of buckets and dates, and the horizon H."""

    def __init__(self, accept: Acceptance, *, horizon_ms: int) -> None:
        if not accept.buckets:
            raise ValueError("the join needs at least one bucket; add [buckets.NAME] to glimpse.toml")
        self.accept, self.horizon_ms = accept, horizon_ms
        rules = {"horizon_ms": horizon_ms, **accept.as_dict()}
        self.content = json.dumps(rules, sort_keys=True, separators=(",", ":")).encode()  # what the hash is made of
        self.hash = _hash(self.content)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the rules that the settings ask for."""
        accept = Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000))
        return cls(accept, horizon_ms=int(settings.wait_s * 1000) + int(settings.lateness_s * 1000))

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return the rules that ``content`` holds.

        >>> from streams.events import Limits
        >>> rules = JoinRules(Acceptance({"a": Limits("a", 2, 12, 1.0, 5.0)}, future_ms=9), horizon_ms=7)
        >>> JoinRules.read(rules.content).hash == rules.hash
        True
        """
        try:
            rules = parse_json(content)
            return cls(Acceptance.of_dict(rules), horizon_ms=rules["horizon_ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadCommit(f"these are no rules of a join: {content!r:.80}") from error


class LogEras(NamedTuple):
    """The rules of one log, each from its offset on; those of the first era hold before it too."""

    starts: list[int]
    rules: list[JoinRules]

    def at(self, offset: int) -> JoinRules:
        """Return the rules for an event at ``offset``."""
        return self.rules[max(0, bisect_right(self.starts, offset) - 1)]

    def since(self, offset: int) -> list[RuleEra]:
        """Return the eras as a commit names them, from the one that ``offset`` is in."""
        eras = [RuleEra(start, rules.hash) for start, rules in zip(self.starts, self.rules, strict=True)]
        return eras[max(0, bisect_right(self.starts, offset) - 1) :]


def parts(offsets: NDArray[np.int64], starts: Iterable[int]) -> Iterator[slice]:
    """Yield the parts of a batch between which other rules begin, or something else does."""
    if len(offsets):
        cuts = sorted({int(np.searchsorted(offsets, start)) for start in starts} | {0, len(offsets)})
        yield from map(slice, cuts, cuts[1:])


def eras_from(
    resume: Commit, now: JoinRules, known: Mapping[str, bytes], partition: int
) -> tuple[LogPair[LogEras], list[Rules]]:
    """Return the eras of a join that goes on from ``resume`` by the rules of ``now``.

    Beside them is the record that its first commit must write, if a new era begins.
    """

    def named(part: LogPart) -> list[RuleEra]:
        same = part.eras and part.eras[-1].rules == now.hash
        return part.eras if same else [*part.eras, RuleEra(part.processed, now.hash)]

    def rules_of(era: RuleEra) -> JoinRules:
        if era.rules == now.hash:
            return now
        if era.rules not in known:
            raise BadCommit(
                f"events from offset {era.offset} on were judged by the rules {era.rules}, which the parameters "
                "topic does not have; restore it"
            )
        content = known[era.rules]
        if _hash(content) != era.rules:
            raise BadCommit(f"the rules that are called {era.rules} have the hash {_hash(content)}: they were changed")
        return JoinRules.read(content)

    eras = resume.logs.map(named)
    is_new = eras != resume.logs.map(lambda part: part.eras)
    if is_new and max(map(len, eras)) > MOST_ERAS:
        raise BadCommit(
            f"the settings changed {MOST_ERAS} times within three horizons, and a commit can name no more; go back "
            "to the last ones, and change them later"
        )
    starts = (of_log[-1].offset for of_log in eras)
    records = [Rules(now.hash, now.content, "", partition, *starts)] if is_new else []
    return eras.map(lambda of_log: LogEras([era.offset for era in of_log], list(map(rules_of, of_log)))), records


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
