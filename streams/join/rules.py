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
from streams.events import Acceptance
from streams.join.log_part import BadCommit, RuleEra, canonical_rules, rules_hash

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
