"""The comparison of all buckets with a control, as far as the samples were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner.compare import (
    Lift,
    RatioMoments,
    further_information,
    lift_over_control,
    moments_over_time,
)
from streams.compare.columns import CLICKED, CLICKS, HITS, LISTS, MINUTE_MS, ROWS, Arm, ArmSums, ListSums
from streams.compare.guards import join_rate, sample_ratio
from streams.compare.look import CompareChoice, Look
from streams.compare.losses import LOST, LostClicks
from streams.compare.shadows import ShadowResult
from streams.settings import Settings
from streams.split import Split

METRICS = ("sum", "set")
POINTS = 200  # of a curve


class CompareError(ValueError):
    """A comparison that cannot be made as asked."""


@dataclass(frozen=True, slots=True)
class BucketLift:
    """One metric of one bucket against the control, now."""

    estimate: float | None
    low: float
    high: float | None  # None: no bound yet
    decided_since_ms: int | None
    more_s: float | None  # until a decision with a chance of 80%, None when decided or not to be foretold


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What came of one bucket."""

    bucket: str
    lists: int
    users: int
    clicks: int
    lost_clicks: int
    correctable: int  # lists that a late click may still change
    rates: dict[str, float]
    lifts: dict[str, BucketLift] | None  # None for the control
    by_position: list[tuple[int, int]]  # rows and clicks of position 1, 2, …
    curve: dict[str, list[float]]  # by end of minute: time_ms, lists, sum, set; and low and high of the lift


@dataclass(frozen=True, slots=True)
class BucketComparison:
    """Who won, as far as is known, and whether it may be believed."""

    control: str
    split: str
    metric: str
    from_ms: int
    to_ms: int
    buckets: list[BucketResult]
    sample_ratio: dict[str, Any]
    join_rate: dict[str, Any]
    stops: list[str]  # buckets below the guardrail
    notes: list[str]
    open: int | None = None  # lists that wait for their close, where a join says so
    shadows: list[ShadowResult] = field(default_factory=list)

    @property
    def believed(self) -> bool:
        """Whether no check raised an alarm."""
        return not (self.sample_ratio["alarm"] or self.join_rate["alarm"])


def compare(sums: ListSums, losses: LostClicks, choice: CompareChoice) -> BucketComparison:
    """Return the comparison of what was counted so far."""
    split = chosen_split(sums, choice)
    notes: list[str] = []
    if len({arm.split for arm in sums.arms}) > 1:
        notes.append(f"only lists under the split {split or 'without a version'!r} are compared; others: --split")
    arms = {arm.bucket: found for arm, found in sums.arms.items() if arm.split == split}
    arms = {name: arms[name] for name in sorted(arms) if not choice.buckets or name in choice.buckets}
    control = _control(arms, choice)
    sums.settle()
    if sums.sample.halvings:
        notes.append(f"1 of {2**sums.sample.halvings} users is taken, by a hash, to keep memory small")
    minutes = np.unique(np.concatenate([found.rows.minute for found in arms.values()]))
    if not len(minutes):
        raise CompareError("all lists were taken back; there is nothing to compare")
    per_user = all(found.userless == 0 for found in arms.values())
    if not per_user:
        notes.append("some lists tell no user (log a split_version): each of those counts as a user of its own")
    over = {name: [_moments(found, minutes, total) for total in (CLICKS, CLICKED)] for name, found in arms.items()}
    losses.settle()
    lost = {name: losses.arms.get(Arm(name, split)) for name in arms}
    look = Look(control, minutes, over, choice)
    results = [_result(name, arms[name], lost[name], look) for name in arms]
    stops = [
        one.bucket
        for one in results
        for lift in (one.lifts or {}).values()
        if lift.high is not None and lift.high < -choice.guardrail
    ]
    return BucketComparison(
        control=control,
        split=split,
        metric=choice.metric,
        from_ms=int(minutes[0]) * MINUTE_MS,
        to_ms=(int(minutes[-1]) + 1) * MINUTE_MS,
        buckets=sorted(results, key=lambda one: -one.rates[choice.metric]),
        sample_ratio=sample_ratio(look, arms, per_user=per_user),
        join_rate=join_rate(look, arms, lost),
        stops=sorted(set(stops)),
        notes=notes,
    )


def chosen_split(sums: ListSums, choice: CompareChoice) -> str:
    """Return the version of the split that is compared: the one asked for, else the newest."""
    if not sums.arms:
        raise CompareError("no lists in the samples yet; glimpse join writes them wait_s after they were shown")
    known = {arm.split for arm in sums.arms}
    if choice.split is not None:
        if choice.split not in known:
            raise CompareError(f"no lists under the split {choice.split!r}; there are {sorted(known)}")
        return choice.split
    return max(sums.arms, key=lambda arm: (sums.arms[arm].newest_ms, arm.split)).split


def _control(arms: Mapping[str, ArmSums], choice: CompareChoice) -> str:
    if choice.control is not None:
        if choice.control not in arms:
            raise CompareError(f"no lists of the control {choice.control!r}; there are {', '.join(arms) or 'none'}")
        return choice.control
    if not arms:
        raise CompareError(f"no lists of the buckets {', '.join(choice.buckets)}")
    return next(iter(arms))


def _moments(found: ArmSums, minutes: NDArray[np.int64], total: int) -> RatioMoments:
    rows = found.rows
    when = np.searchsorted(minutes, rows.minute)
    return moments_over_time(rows.user, when, rows.amounts[:, LISTS], rows.amounts[:, total], bins=len(minutes))


def _result(name: str, found: ArmSums, lost: ArmSums | None, look: Look) -> BucketResult:
    over, minutes, choice = look.over, look.minutes, look.choice
    amounts, rows = found.rows.amounts.sum(axis=0), found.rows
    last = int(minutes[-1])
    correctable = rows.minute > last - choice.correctable_s * 1000 / MINUTE_MS
    shown = int(np.flatnonzero(found.positions[ROWS]).max(initial=0))
    curve: dict[str, NDArray[np.float64]] = {
        "time_ms": ((minutes + 1) * MINUTE_MS).astype(np.float64),
        "lists": over[name][0].size,
        **{metric: moments.rate for metric, moments in zip(METRICS, over[name], strict=True)},
    }
    lifts: dict[str, BucketLift] | None = None
    if name != look.control:
        lifts = {}
        for metric, moments, base in zip(METRICS, over[name], over[look.control], strict=True):
            lift = lift_over_control(moments, base, alpha=look.alpha)
            lifts[metric] = _now(lift, minutes, look.alpha)
            if metric == choice.metric:
                curve |= {"low": lift.low, "high": np.minimum(lift.high, 1e6)}
    places = np.unique(np.linspace(0, len(minutes) - 1, POINTS).astype(int))
    return BucketResult(
        bucket=name,
        lists=int(amounts[LISTS]),
        users=int(over[name][0].users[-1]),
        clicks=int(amounts[CLICKS]),
        lost_clicks=0 if lost is None else int(lost.settle().amounts[:, LOST].sum()),
        correctable=int(rows.amounts[correctable, LISTS].sum()),
        rates={metric: float(moments.rate[-1]) for metric, moments in zip(METRICS, over[name], strict=True)},
        lifts=lifts,
        by_position=[(int(found.positions[ROWS, k]), int(found.positions[HITS, k])) for k in range(1, shown + 1)],
        curve={key: values[places].tolist() for key, values in curve.items()},
    )


def _now(lift: Lift, minutes: NDArray[np.int64], alpha: float) -> BucketLift:
    """Return the newest bounds, since when they have excluded 0 without a break, or how long they may still need."""
    decided = lift.decided
    if np.isnan(lift.estimate[-1]):
        return BucketLift(None, -1.0, None, None, None)
    since, more = None, None
    if decided[-1]:
        open_before = np.flatnonzero(~decided)
        since = int(minutes[open_before[-1] + 1 if len(open_before) else 0] + 1) * MINUTE_MS
    else:
        more = _more_s(lift, minutes, alpha)
    bounds = float(lift.low[-1]), float(lift.high[-1])
    return BucketLift(float(lift.estimate[-1]), *bounds, since, more)


def _more_s(lift: Lift, minutes: NDArray[np.int64], alpha: float) -> float | None:
    """Return the seconds until a decision, if information comes in as it did in the second half of the time."""
    times = further_information(float(np.log1p(lift.estimate[-1])), float(lift.variance[-1]), alpha=alpha)
    half = int(np.searchsorted(minutes, (minutes[0] + minutes[-1]) / 2))
    known = 1 / lift.variance
    gained, spent = known[-1] - known[half], (minutes[-1] - minutes[half]) * MINUTE_MS / 1000
    if half == len(minutes) - 1:  # all in a minute
        gained, spent = known[-1], MINUTE_MS / 1000
    if not np.isfinite(times) or gained <= 0:
        return None
    return float((times - 1) * known[-1] / gained * spent)


def choice_of(settings: Settings, choice: CompareChoice, sums: ListSums) -> CompareChoice:
    """Return the choice with what the settings know: H, a control, and the shares if users were split as they are now.

    The control is the holdout's bucket, else the first bucket of the settings that has lists.
    """
    choice = replace(choice, correctable_s=settings.horizon_s)
    if not settings.buckets or not sums.arms:
        return choice
    version = chosen_split(sums, choice)
    there = {arm.bucket for arm in sums.arms if arm.split == version}
    first = [name for name in (settings.split.holdout_bucket, *settings.buckets) if name in there]
    control = choice.control or next(iter(first), None)
    choice = replace(choice, control=control)
    split = Split.of(settings)
    if choice.shares or version not in ("", split.version) or control is None or control not in settings.buckets:
        return choice
    return replace(choice, shares=split.weights.get(settings.buckets[control].namespace, {}))
