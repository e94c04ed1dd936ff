"""Offsets, record times and a window of commits in, lag with verdicts out (pure); ``LagReader`` asks a broker."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from streams.lag.verdict import Facts, OffsetAt, OpenTransaction, Verdict, Window, judge, time_lag

PACE, IN_HAND_S = 0.9, 2.0  # how near to its log's rate a consumer keeps pace, and how much it may have in hand


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition of a group, as it is shown; what has a default is not known of every partition."""

    topic: str
    partition: int
    committed: int | None
    position: int | None = None
    end: int = 0
    lag: int = 0
    exact: bool = False
    # The age of the first unread record, where the broker stamps them; else how far the newest is beyond it.
    lag_s: float | None = None
    rate_in: float | None = None  # offsets a second
    rate_out: float | None = None
    catch_up_s: float | None = None  # None: never, or not known
    retention_left_s: float | None = None  # before a record that is still needed may be deleted; None: kept for ever
    lost: int = 0  # offsets deleted before they were read
    transaction: OpenTransaction | None = None
    last_commit_ms: int | None = None
    verdict: Verdict
    reason: str
    note: str = ""  # what is odd about its commit


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One group with its partitions, those with the worst verdict telling for all."""

    name: str  # what it does: join, learn, or the group's own name
    group: str
    members: int | None  # consumers that the broker knows of; None: not known
    partitions: tuple[PartitionLag, ...]

    @property
    def worst(self) -> PartitionLag | None:
        """The partition that is worst off: by verdict, then by lag; one of which nothing is known before others."""
        order = [
            (partition.verdict.severity, inf if partition.lag_s is None else partition.lag_s, partition.lag)
            for partition in self.partitions
        ]
        return self.partitions[order.index(max(order))] if order else None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its partitions."""
        return self.worst.verdict if self.worst else Verdict.OK

    @property
    def reason(self) -> str:
        """Why, in words."""
        worst = self.worst
        if worst is None:
            return "has no partitions"
        alike = sum(partition.verdict is worst.verdict for partition in self.partitions)
        if worst.verdict is Verdict.OK and not any(partition.lag for partition in self.partitions):
            return "caught up"
        among = f" ({alike} of {len(self.partitions)} partitions)" if worst.verdict is not Verdict.OK else ""
        return f"{worst.topic}[{worst.partition}] {worst.reason}{among}"

    @property
    def lag(self) -> int:
        """Records that wait, over all partitions."""
        return sum(partition.lag for partition in self.partitions)

    @property
    def lag_s(self) -> float | None:
        """The longest wait."""
        return max((partition.lag_s for partition in self.partitions if partition.lag_s is not None), default=None)


@dataclass(frozen=True, slots=True)
class LagReport:
    """All groups at one time."""

    at_ms: int
    groups: tuple[GroupLag, ...]
    notes: tuple[str, ...] = ()  # what could not be seen, one line each

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all."""
        return max((group.verdict for group in self.groups), key=lambda verdict: verdict.severity, default=Verdict.OK)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as what JSON has."""
        groups = [
            {"verdict": group.verdict.value, "reason": group.reason, "lag": group.lag, "lag_s": group.lag_s}
            | asdict(group)
            for group in self.groups
        ]
        return {"at_ms": self.at_ms, "verdict": self.verdict.value, "groups": groups, "notes": list(self.notes)}


def without_leader(topic: str, partition: int, *, committed: int | None) -> PartitionLag:
    """Return what is shown of a partition that no broker serves: nothing is known, and nobody can read it."""
    words = "has no leader, so nobody can read or write it; see which broker is down"
    return PartitionLag(topic=topic, partition=partition, committed=committed, verdict=Verdict.STOP, reason=words)


def partition_lag(facts: Facts, *, now_ms: int, window: Window) -> PartitionLag:
    """Return what is shown of a partition, with its verdict."""
    verdict, reason = judge(facts, now_ms=now_ms, window=window)
    reading = facts.start if facts.position is None else facts.position
    lost = 0 if facts.other_log else max(0, facts.start - reading)
    lost = lost if lost > 1 else 0  # one offset may be the marker behind the last record
    needed = None if facts.committed is None or facts.other_log else facts.committed
    deleted = f"{lost} offsets were deleted before they were read" if lost else ""
    if not lost and needed is not None and needed + 1 < facts.start:
        deleted = f"a restart needs offset {needed}, but the log begins at {facts.start} by now"
    if deleted:
        verdict, reason = max(verdict, Verdict.WARN, key=lambda candidate: candidate.severity), f"{deleted}; {reason}"
    rate_in, rate_out = rate(facts.ends, now_ms, window), rate(facts.commits, now_ms, window)
    density = facts.unread / (facts.end - reading) if facts.unread and facts.end > reading else 1.0
    left = None
    if facts.retention_s is not None and facts.needed_ms is not None:
        left = facts.retention_s - (now_ms - facts.needed_ms) / 1000
    return PartitionLag(
        topic=facts.topic,
        partition=facts.partition,
        committed=facts.committed,
        position=facts.position,
        end=facts.end,
        lag=facts.unread,
        exact=facts.exact,
        lag_s=time_lag(facts, now_ms),
        rate_in=rate_in,
        rate_out=rate_out,
        catch_up_s=catch_up(facts.unread, rate_in, rate_out, density),
        retention_left_s=left,
        lost=lost,
        transaction=facts.transaction,
        last_commit_ms=facts.commits[-1].at_ms if facts.commits else None,
        verdict=verdict,
        reason=reason,
        note=facts.note,
    )


def rate(marks: Sequence[OffsetAt], now_ms: int, window: Window) -> float | None:
    """Return offsets a second over the window, or over what is known of it; None when that is next to nothing."""
    index = bisect_right(marks, now_ms - window.span_s * 1000, key=lambda mark: mark.at_ms)
    known = marks[max(0, index - 1) :]
    if not known:
        return None
    first, last = known[0], known[-1]
    moving_ms, silent_ms = last.at_ms - first.at_ms, now_ms - last.at_ms
    usual = len(known) > 1 and silent_ms < 2 * moving_ms / (len(known) - 1)  # who commits now and then is not slow
    seconds = (moving_ms + (0 if usual else silent_ms)) / 1000
    if seconds < window.span_s / window.commits:
        return None
    return max(0.0, (last.offset - first.offset) / seconds)


def catch_up(unread: int, rate_in: float | None, rate_out: float | None, density: float = 1.0) -> float | None:
    """Return the seconds until nothing waits at these rates, or None for never.

    Who keeps pace always has some records in hand: those count as read as soon as it has got through them.

    >>> catch_up(100, 10.0, 30.0), catch_up(100, 10.0, 10.0), catch_up(0, 10.0, 0.0), catch_up(9, 50.0, 49.0, 0.5)
    (5.0, None, 0.0, 0.36...)
    """
    if not unread:
        return 0.0
    if rate_in is None or rate_out is None:
        return None
    if rate_out >= PACE * rate_in and unread <= IN_HAND_S * rate_out * density:
        return unread / (rate_out * density)
    return unread / ((rate_out - rate_in) * density) if rate_out > rate_in else None
