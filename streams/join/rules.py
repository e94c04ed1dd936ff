"""The rules of a join, by era: what a list must keep, how long it may change, and which way of judging holds.

Content rules (buckets, K, d, scales) are those in force at the list's offset, for ever; time rules (the horizon H and
how far an event may lie ahead of its record) those at the event's own offset. So a change of settings rewrites nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.codec import MAX_BYTES
from schemas.json_text import parse_json
from schemas.records import Rules
from streams.events import Acceptance
from streams.join.commit import Commit
from streams.join.first_commit import first_hash
from streams.join.log_part import BadCommit, LogPart, RuleEra, canonical_rules, rules_hash

FIRST, SECOND = 1, 2  # ways of judging: of the first version, and this one
MOST_ERAS = 32  # that a commit can name


class JoinRules:
    """Everything but the logs that decides what becomes of an event.

    Parameters
    ----------
    accept
        The limits of each bucket, and how far an event may be dated after its own record.
    horizon_ms
        H: how long after being shown a list may change.
    judging
        The first version took a log's largest time stamp for its clock, let only accepted lists hold their ids, and had
        no limits of size and no look at a click's session. What it has judged stays as it was.
    """

    def __init__(self, accept: Acceptance, *, horizon_ms: int, judging: int = SECOND) -> None:
        self.accept, self.horizon_ms, self.judging = accept, horizon_ms, judging
        self.content = canonical_rules(judging, horizon_ms, accept.as_dict())
        self.hash = rules_hash(self.content)

    @property
    def first(self) -> bool:
        """Whether events are judged as the first version did."""
        return self.judging == FIRST

    @property
    def most_bytes(self) -> int:
        """The largest event, key included."""
        return MAX_BYTES if self.first else self.accept.most_bytes

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return the rules that ``content`` holds.

        >>> from streams.events import Limits
        >>> rules = JoinRules(Acceptance({"a": Limits("a", 2, 12, 1.0, 5.0)}, future_ms=9), horizon_ms=7)
        >>> JoinRules.read(rules.content).hash == rules.hash
        True
        """
        try:
            found = parse_json(content)
            return cls(Acceptance.of_dict(found), horizon_ms=found["horizon_ms"], judging=found["judging"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadCommit(f"these are no rules of a join: {content!r:.80}") from error


class LogEras(NamedTuple):
    """The rules of one log, each from its offset on; those of the first era hold before it too."""

    starts: list[int]
    rules: list[JoinRules]

    @classmethod
    def of(cls, eras: Sequence[RuleEra], known: Mapping[str, JoinRules]) -> LogEras:
        """Return the eras of a commit with their rules, or say which are missing."""
        for era in eras:
            if era.rules not in known:
                raise BadCommit(
                    f"events from offset {era.offset} on were judged by the rules {era.rules}, which the parameters "
                    "topic does not have; restore it"
                )
        return cls([era.offset for era in eras], [known[era.rules] for era in eras])

    def at(self, offset: int) -> JoinRules:
        """Return the rules for an event at ``offset``."""
        return self.rules[max(0, bisect_right(self.starts, offset) - 1)]

    @property
    def first_below(self) -> int:
        """The offset below which events are judged as the first version did."""
        ends = [*self.starts[1:], None]
        found = [end for end, rules in zip(ends, self.rules, strict=True) if rules.first and end is not None]
        return found[-1] if found else 0


def parts(offsets: NDArray[np.int64], starts: Iterable[int]) -> Iterator[slice]:
    """Yield the parts of a batch between which other rules begin, or something else does."""
    if len(offsets):
        cuts = sorted({int(np.searchsorted(offsets, start)) for start in starts} | {0, len(offsets)})
        yield from map(slice, cuts, cuts[1:])


class EraRules:
    """The rules of both logs by offset, and the records that must be written with the first commit of a new era."""

    def __init__(self, impressions: LogEras, clicks: LogEras, new: list[Rules]) -> None:
        self.impressions, self.clicks, self._new = impressions, clicks, new

    @classmethod
    def of(cls, resume: Commit, now: JoinRules, known: Mapping[str, bytes], partition: int) -> EraRules:
        """Return the eras of a join that goes on from ``resume`` by the rules of ``now``."""
        if resume.problem:
            raise BadCommit(resume.problem)
        parts = _eras(resume.impressions, now), _eras(resume.clicks, now)
        contents = {**known, **resume.rules}
        named = {era.rules for part in parts for era in part} & contents.keys()
        rules = {name: _read(name, contents[name], now) for name in named} | {now.hash: now}
        if _is_new(resume, now) and max(map(len, parts)) > MOST_ERAS:
            raise BadCommit(
                f"the settings changed {MOST_ERAS} times within three horizons, and a commit can name no more; go back "
                "to the last ones, and change them later"
            )
        both = LogEras.of(parts[0], rules), LogEras.of(parts[1], rules)
        fresh = [*resume.rules, *([now.hash] if _is_new(resume, now) else [])]
        new = [_record(rules[name], name, parts, partition) for name in fresh]
        return cls(*both, new)

    def unwritten(self) -> list[Rules]:
        """Return what the next checkpoint must write, once."""
        new, self._new = self._new, []
        return new


def _read(name: str, content: bytes, now: JoinRules) -> JoinRules:
    if rules_hash(content) != name:
        raise BadCommit(f"the rules that are called {name} have the hash {rules_hash(content)}: they were changed")
    rules = parse_json(content)
    if "hash" not in rules:
        return JoinRules.read(content)
    if rules["hash"] != first_hash(now.accept.as_dict()):  # the first version had no room for them in its commit
        raise BadCommit(
            "the settings are not those of the first version's last commit, which does not say what they were; start "
            "once with the old ones"
        )
    return JoinRules(now.accept, horizon_ms=rules["horizon_ms"], judging=FIRST)


def _eras(part: LogPart, now: JoinRules) -> list[RuleEra]:
    if part.eras and part.eras[-1].rules == now.hash:
        return part.eras
    return [*part.eras, RuleEra(part.processed, now.hash)]


def _is_new(resume: Commit, now: JoinRules) -> bool:
    return any(not part.eras or part.eras[-1].rules != now.hash for part in (resume.impressions, resume.clicks))


def _record(rules: JoinRules, name: str, parts: tuple[list[RuleEra], list[RuleEra]], partition: int) -> Rules:
    starts = [max((era.offset for era in eras if era.rules == name), default=0) for eras in parts]
    return Rules(rules.hash, rules.content, "", partition, *starts)
