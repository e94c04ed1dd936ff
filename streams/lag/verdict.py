"""Burrow's verdict on a partition, with the reason in words (pure).

Burrow's idea is that lag needs no threshold: what counts is how a consumer moved over a window of its commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

ENOUGH = 4  # commits in a row tell that lag grows


class Verdict(StrEnum):
    """How a consumer does, from good to bad."""

    OK = "OK"  # caught up, or getting there
    WARN = "WARN"  # moves, but falls behind with every commit
    REWIND = "REWIND"  # its position went back, or its log was made again
    STALL = "STALL"  # commits, but does not move
    STOP = "STOP"  # does not commit any more, or never did

    @property
    def severity(self) -> int:
        """0 for OK, more for worse."""
        return list(Verdict).index(self)


class OffsetAt(NamedTuple):
    """An offset at a time: a position that was committed, or where a log ended."""

    at_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class Window:
    """How much of the past a verdict looks at."""

    span_s: float = 30.0
    commits: int = 10  # at most so many are compared, evenly spread

    def __post_init__(self) -> None:
        if not (0 < self.span_s < float("inf") and self.commits >= 3):
            raise ValueError(f"a window needs a span above 0 s and at least 3 commits, got {self}")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without an end yet, that hides records from readers of committed ones."""

    age_s: float
    writer: str  # its transactional id, or "" when the broker does not tell
    offsets: int  # held back behind its first record


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one partition of a group."""

    topic: str
    partition: int
    start: int  # the first offset that the log still has
    end: int  # the last stable offset: what a reader of committed records can get
    high: int  # the high watermark: where the log ends for writers
    committed: int | None  # None: never
    position: int | None  # processed to; the join's is beyond its committed offset
    commits: Sequence[OffsetAt]  # of positions, oldest first
    ends: Sequence[OffsetAt]  # of the log, oldest first, the last one now
    unread: int  # data records from the position to the end
    since_ms: int = 0  # ends from then on were seen, those before are read off time stamps
    exact: bool = True  # else ``unread`` is an estimate
    unread_ms: int | None = None  # time stamp of the first of them
    clock_ms: int | None = None  # what that is compared with: now, or the log's newest time stamp
    live: bool = False  # it was stamped as it was written
    needed_ms: int | None = None  # time stamp of the oldest record that a restart must read
    retention_s: float | None = None  # None: for ever
    transaction: OpenTransaction | None = None
    other_log: bool = False  # the position is one of a topic of this name that is gone
    note: str = ""  # what was odd about the commit


def judge(facts: Facts, *, now_ms: int, window: Window) -> tuple[Verdict, str]:
    """Return the verdict on a partition by Burrow's rules, and why.

    A record more or less is no lag here: behind a transaction the log ends one offset after its last record.
    """
    window = wide_enough(window, facts.commits)
    span_ms, position = window.span_s * 1000, facts.position
    if facts.other_log:
        return Verdict.REWIND, f"the topic was made again, and position {position} is of the one before"
    if position is not None and position > facts.high:
        return Verdict.REWIND, f"stands at {position}, but the log ends at {facts.high}: it was cut or made again"
    if not facts.unread:
        return Verdict.OK, "nothing to read yet" if position is None else "caught up"
    waits_ms = now_ms - behind_since(facts.ends, facts.start if position is None else position)
    age_s = time_lag(facts, now_ms)
    waiting = "1 record waits" if facts.unread == 1 else f"{facts.unread} records wait"
    waiting += "" if age_s is None else f", the first for {spoken(age_s)}"
    if position is None:
        return Verdict.OK if waits_ms < span_ms else Verdict.STOP, f"never committed, and {waiting}"
    recent = thinned(facts.commits, now_ms=now_ms, window=window)
    for before, after in pairwise(recent):
        if after.offset < before.offset:
            ago = spoken((now_ms - after.at_ms) / 1000)
            return Verdict.REWIND, f"went back from {before.offset} to {after.offset} {ago} ago, and {waiting}"
    if waits_ms < span_ms and (not recent or recent[-1].offset == recent[0].offset):
        return Verdict.OK, f"was caught up {spoken(waits_ms / 1000)} ago"
    if not recent or now_ms - recent[-1].at_ms > span_ms:
        last = f"for {spoken((now_ms - recent[-1].at_ms) / 1000)}" if recent else f"in the last {spoken(window.span_s)}"
        return Verdict.STOP, f"no commit {last}, and {waiting}"
    if now_ms - recent[0].at_ms >= span_ms and all(mark.offset == position for mark in recent):
        return Verdict.STALL, f"commits, but stays at {position} for {spoken(window.span_s)}, and {waiting}"
    lags = [offset_at(facts.ends, mark.at_ms) - mark.offset for mark in recent]
    grows = lags[-1] > lags[0] and all(after >= before for before, after in pairwise(lags))
    over_ms = recent[-1].at_ms - recent[0].at_ms
    if grows and min(lags) > 1 and len(lags) >= ENOUGH and over_ms >= span_ms / 2:
        grew = f"lag grew from {lags[0]:.0f} to {lags[-1]:.0f} in {spoken(over_ms / 1000)}"
        return Verdict.WARN, f"falls behind: {grew}"
    moves = "it moves" if len(recent) > 1 else f"it committed {spoken((now_ms - recent[-1].at_ms) / 1000)} ago"
    return Verdict.OK, f"{waiting}, and {moves}"


def wide_enough(window: Window, commits: Sequence[OffsetAt]) -> Window:
    """Return a window in which a group that commits rarely still has some commits, up to four times as long.

    No longer: who commits once an hour because there is nothing to read should still be missed soon.

    >>> wide_enough(Window(span_s=30), [OffsetAt(0, 1), OffsetAt(20_000, 2), OffsetAt(40_000, 3)]).span_s
    60.0
    """
    gaps = [after.at_ms - before.at_ms for before, after in pairwise(commits[-2 * window.commits :])]
    usual_s = median(gaps) / 1000 if gaps else 0.0
    return replace(window, span_s=min(max(window.span_s, (ENOUGH - 1) * usual_s), 4 * window.span_s))


def thinned(commits: Sequence[OffsetAt], *, now_ms: int, window: Window) -> list[OffsetAt]:
    """Return the last commit before the window, and the last one of each of its slots; and from where one went back.

    >>> marks = [OffsetAt(second * 1000, second) for second in range(10)]
    >>> [mark.offset for mark in thinned(marks, now_ms=9_500, window=Window(span_s=6, commits=3))]
    [3, 5, 7, 9]
    """
    slot_ms = window.span_s * 1000 / window.commits
    kept: list[tuple[int, OffsetAt]] = []
    for mark in commits:
        slot = min(max(int((now_ms - mark.at_ms) // slot_ms), 0), window.commits)
        if kept and kept[-1][0] == slot and (slot == window.commits or mark.offset >= kept[-1][1].offset):
            kept.pop()
        kept.append((slot, mark))
    return [mark for _, mark in kept]


def offset_at(marks: Sequence[OffsetAt], at_ms: float) -> float:
    """Return the offset at a time, interpolated between two marks, and that of the nearest mark outside them.

    >>> offset_at([OffsetAt(0, 10), OffsetAt(1000, 20)], 250)
    12.5
    """
    index = bisect_right(marks, at_ms, key=lambda mark: mark.at_ms)
    if index == 0 or index == len(marks):
        return float(marks[min(index, len(marks) - 1)].offset) if marks else 0.0
    before, after = marks[index - 1], marks[index]
    part = (at_ms - before.at_ms) / (after.at_ms - before.at_ms)
    return before.offset + part * (after.offset - before.offset)


def behind_since(ends: Sequence[OffsetAt], position: int) -> float:
    """Return when a log grew beyond ``position``, interpolated; the first mark's time if it was there already.

    >>> behind_since([OffsetAt(0, 10), OffsetAt(1000, 20), OffsetAt(2000, 30)], 15)
    500.0
    """
    later = next((index for index, mark in enumerate(ends) if mark.offset > position), None)
    if later is None:
        return float(ends[-1].at_ms) if ends else 0.0
    if later == 0:
        return float(ends[0].at_ms)
    before, after = ends[later - 1], ends[later]
    return before.at_ms + (after.at_ms - before.at_ms) * (position - before.offset) / (after.offset - before.offset)


def time_lag(facts: Facts, now_ms: int) -> float | None:
    """Return the age of the first unread record in seconds: read off it, else interpolated from where the log ended."""
    if not facts.unread:
        return 0.0
    reading = facts.start if facts.position is None else facts.position
    since_ms = behind_since(facts.ends, reading)
    if facts.unread_ms is not None and facts.live:
        return max((now_ms - facts.unread_ms) / 1000, 0.0)
    if facts.unread_ms is not None:  # time stamps of another clock may stand still while it waits
        seen_s = (now_ms - max(since_ms, facts.since_ms)) / 1000
        return max(((facts.clock_ms or now_ms) - facts.unread_ms) / 1000, seen_s, 0.0)
    if not facts.ends or facts.ends[0].offset > reading:
        return None  # older than anything that was seen
    return (now_ms - since_ms) / 1000


def spoken(seconds: float) -> str:
    """Return a time as people say it.

    >>> [spoken(value) for value in (0.25, 42, 600, 7300, 200_000)]
    ['0.2 s', '42 s', '10 min', '2.0 h', '2.3 d']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
