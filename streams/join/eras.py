"""The rules that a join had before, and what became of events under them: a change rewrites nothing.

What was refused stays refused, and what is in the samples stays there. Of the lists that are open when the rules
change, those that the new rules refuse are closed: they become dead letters, and their clicks late ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import Impression
from streams.events import Acceptance

Ints = NDArray[np.int64]


class RuleEra(NamedTuple):
    """Rules that held for what was processed before these offsets; lists shown before ``before_ms`` were out then."""

    below: int  # in impressions
    clicks_below: int
    before_ms: int
    rules: str  # as Acceptance writes them


class RuleEras:
    """The rules that events were judged by, as far back as a join still reads."""

    def __init__(self, past: Sequence[RuleEra], now: Acceptance) -> None:
        self.past = list(past)
        self._below = [era.below for era in past]
        self._rules = [*(Acceptance.read(era.rules) for era in past), now]
        self._scales = [{limits.name: limits.reward_scale for limits in rules.buckets} for rules in self._rules]

    def concern(self, offsets: Ints) -> bool:
        """Return whether some of these impressions were judged by other rules than today's."""
        return bool(self._below) and bool(offsets[0] < self._below[-1])

    def judge(
        self,
        impressions: Sequence[Impression],
        shown_at: Ints,
        timestamps: Ints,
        offsets: Ints,
        refused: dict[int, str],
    ) -> tuple[set[int], dict[int, str]]:
        """Correct ``refused``, which is by today's rules, and return which impressions are closed.

        Closed ones were accepted once, and are not to be emitted (again). Of them, those that were open until the last
        change of rules are returned with the reason why they are refused now.
        """
        verdicts = [rules.judge(impressions, shown_at, timestamps)[2] for rules in self._rules[:-1]] + [dict(refused)]
        closed: set[int] = set()
        just_now: dict[int, str] = {}
        for index in np.flatnonzero(offsets < self._below[-1]).tolist():
            first = bisect_right(self._below, int(offsets[index]))
            if index in verdicts[first]:
                refused[index] = verdicts[first][index]
                continue
            for number in range(first, len(self.past)):
                if shown_at[index] < self.past[number].before_ms:
                    break  # it is in the samples, whatever came later
                if index in verdicts[number + 1]:
                    closed.add(index)
                    if number + 1 == len(self.past):
                        just_now[index] = verdicts[-1][index]
                    break
            if refused.pop(index, None) is not None:
                closed.add(index)
        return closed, just_now

    def reward_scale(self, bucket: str, lists: Ints, clicks: Ints) -> NDArray[np.float64]:
        """Return the lowest limit that each click's reward had to keep before, given the offsets of list and click."""
        lowest = np.full(len(clicks), np.inf)
        for era, scales in zip(self.past, self._scales, strict=False):
            judged = (lists < era.below) & (clicks < era.clicks_below)
            lowest[judged] = np.minimum(lowest[judged], scales.get(bucket, np.inf))
        return lowest

    def future_ms(self, clicks: Ints) -> Ints:
        """Return how far a click at each offset might be dated after its own record."""
        eras = np.searchsorted([era.clicks_below for era in self.past], clicks, side="right")
        found: Ints = np.array([rules.future_ms for rules in self._rules], np.int64)[eras]
        return found
