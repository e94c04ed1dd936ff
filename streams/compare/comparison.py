"""The comparison of all buckets with a control, as far as the samples were read, and the checks that it must pass."""

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
    loss_gaps,
    moments_over_time,
    ratio_evidence,
)
from streams.compare.columns import CLICKED, CLICKS, HITS, LISTS, MINUTE_MS, ROWS, Arm, ArmSums, ListSums
from streams.compare.losses import LOST, LostClicks
from streams.settings import Settings
from streams.split import Split

METRICS = ("sum", "set")
POINTS = 200  # of a curve


class CompareError(ValueError):
    """A comparison that cannot be made as asked."""


@dataclass(frozen=True, slots=True)
class CompareChoice:
    """What to compare, and how sure to be."""

    control: str | None = None  # else the first by name
    split: str | None = None  # version of the split; else the newest
    shares: Mapping[str, float] = field(default_factory=dict)  # of users, as the split means them; none: not tested
    buckets: tuple[str, ...] = ()  # none: all
    metric: str = "sum"  # that the verdict is about
    alpha: float = 0.05  # chance that any verdict is ever wrong
    guardrail: float = 0.05  # a bucket certainly so much below the control is to be stopped
    alarm_alpha: float = 0.0005  # chance that a check ever blames what is sound: half of the 0.1% that is promised
    correctable_s: float = 1200.0  # H: so long after being shown a list may change


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
class ShadowResult:
    """A shadow's estimated rates with their 95% bounds, of a policy as it stands now, and its host's own rates."""

    bucket: str
    host: str
    estimator: str
    lists: int  # of the host
    rates: dict[str, tuple[float, float, float]]  # by metric: value, low, high
    host_rates: dict[str, float]
    notes: list[str]  # what to beware of, or why there is no estimate


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
    arms = {arm.bucket: arm_sums for arm, arm_sums in sums.arms.items() if arm.split == split}
    arms = {name: arms[name] for name in sorted(arms) if not choice.buckets or name in choice.buckets}
    control = _control(arms, choice)
    sums.settle()
    if sums.sample.halvings:
        notes.append(f"1 of {2**sums.sample.halvings} users is taken, by a hash, to keep memory small")
    minutes = np.unique(np.concatenate([arm_sums.rows.minute for arm_sums in arms.values()]))
    if not len(minutes):
        raise CompareError("all lists were taken back; there is nothing to compare")
    per_user = all(arm_sums.userless == 0 for arm_sums in arms.values())
    if not per_user:
        notes.append("some lists tell no user (log a split_version): each of those counts as a user of its own")
    over = {
        name: [_moments(arm_sums, minutes, total) for total in (CLICKS, CLICKED)] for name, arm_sums in arms.items()
    }
    losses.settle()
    lost = {name: losses.arms.get(Arm(name, split)) for name in arms}
    each = replace(choice, control=control, alpha=choice.alpha / max(1, len(arms) - 1))  # so that all err with alpha
    results = [_result(name, arms[name], lost[name], over, minutes, each) for name in arms]
    stops = [
        result.bucket
        for result in results
        for lift in (result.lifts or {}).values()
        if lift.high is not None and lift.high < -choice.guardrail
    ]
    return BucketComparison(
        control=control,
        split=split,
        metric=choice.metric,
        from_ms=int(minutes[0]) * MINUTE_MS,
        to_ms=(int(minutes[-1]) + 1) * MINUTE_MS,
        buckets=sorted(results, key=lambda result: -result.rates[choice.metric]),
        sample_ratio=_sample_ratio(arms, over, minutes, choice, per_user),
        join_rate=_join_rate(arms, lost, minutes, alpha=choice.alarm_alpha),
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


def _moments(arm_sums: ArmSums, minutes: NDArray[np.int64], total: int) -> RatioMoments:
    rows = arm_sums.rows
    when = np.searchsorted(minutes, rows.minute)
    return moments_over_time(rows.user, when, rows.amounts[:, LISTS], rows.amounts[:, total], bins=len(minutes))


def _result(
    name: str,
    arm_sums: ArmSums,
    lost: ArmSums | None,
    over: Mapping[str, list[RatioMoments]],
    minutes: NDArray[np.int64],
    choice: CompareChoice,
) -> BucketResult:
    rows = arm_sums.rows
    amounts = rows.amounts.sum(axis=0)
    correctable = rows.minute > int(minutes[-1]) - choice.correctable_s * 1000 / MINUTE_MS
    shown = int(np.flatnonzero(arm_sums.positions[ROWS]).max(initial=0))
    curve: dict[str, NDArray[np.float64]] = {
        "time_ms": ((minutes + 1) * MINUTE_MS).astype(np.float64),
        "lists": over[name][0].size,
        **{metric: moments.rate for metric, moments in zip(METRICS, over[name], strict=True)},
    }
    lifts: dict[str, BucketLift] | None = None
    if choice.control is not None and name != choice.control:
        lifts = {}
        for metric, moments, base in zip(METRICS, over[name], over[choice.control], strict=True):
            lift = lift_over_control(moments, base, alpha=choice.alpha)
            lifts[metric] = _now(lift, minutes, choice.alpha)
            if metric == choice.metric:
                curve |= {"low": lift.low, "high": np.minimum(lift.high, 1e6)}
    points = np.unique(np.linspace(0, len(minutes) - 1, POINTS).astype(int))
    return BucketResult(
        bucket=name,
        lists=int(amounts[LISTS]),
        users=int(over[name][0].users[-1]),
        clicks=int(amounts[CLICKS]),
        lost_clicks=0 if lost is None else int(lost.settle().amounts[:, LOST].sum()),
        correctable=int(rows.amounts[correctable, LISTS].sum()),
        rates={metric: float(moments.rate[-1]) for metric, moments in zip(METRICS, over[name], strict=True)},
        lifts=lifts,
        by_position=[(int(arm_sums.positions[ROWS, k]), int(arm_sums.positions[HITS, k])) for k in range(1, shown + 1)],
        curve={key: values[points].tolist() for key, values in curve.items()},
    )


def _now(lift: Lift, minutes: NDArray[np.int64], alpha: float) -> BucketLift:
    """Return the newest bounds, since when they have excluded 0 without a break, or how long they may still need."""
    if np.isnan(lift.estimate[-1]):
        return BucketLift(None, -1.0, None, None, None)
    now = float(lift.estimate[-1]), float(lift.low[-1]), float(lift.high[-1])
    if not lift.decided[-1]:
        return BucketLift(*now, None, _more_s(lift, minutes, alpha))
    since = int(np.flatnonzero(~lift.decided).max(initial=-1)) + 1
    return BucketLift(*now, int(minutes[since] + 1) * MINUTE_MS, None)


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
    choice, split = replace(choice, control=control), Split.of(settings)
    if choice.shares or version not in ("", split.version) or control is None or control not in settings.buckets:
        return choice
    return replace(choice, shares=split.weights.get(settings.buckets[control].namespace, {}))


def _sample_ratio(
    arms: Mapping[str, ArmSums],
    over: Mapping[str, list[RatioMoments]],
    minutes: NDArray[np.int64],
    choice: CompareChoice,
    per_user: bool,
) -> dict[str, Any]:
    """Return what the counts of users say of the split."""
    shares = choice.shares
    tested = [name for name in arms if shares.get(name, 0) > 0]
    everybody = np.concatenate([np.unique(arm_sums.rows.user) for arm_sums in arms.values()])
    twice = len(everybody) - len(np.unique(everybody))
    if not per_user or len(tested) < 2:
        why = "the samples tell no users" if not per_user else "the shares of the split are not known"
        return {"tested": False, "why": why, "alarm": False, "users_in_two_buckets": twice if per_user else 0}
    total = sum(shares[name] for name in tested)
    counts = np.stack([over[name][0].users for name in tested], axis=-1)
    evidence = ratio_evidence(counts, [shares[name] / total for name in tested])
    alarm = evidence >= -np.log(choice.alarm_alpha)
    return {
        "tested": True,
        "alarm": bool(alarm.any()),
        "since_ms": int(minutes[alarm.argmax()] + 1) * MINUTE_MS if alarm.any() else None,
        "expected": {name: shares[name] / total for name in tested},
        "found": {name: float(counts[-1, k] / counts[-1].sum()) for k, name in enumerate(tested)},
        "users_in_two_buckets": twice,
    }


def _join_rate(
    arms: Mapping[str, ArmSums], lost: Mapping[str, ArmSums | None], minutes: NDArray[np.int64], *, alpha: float
) -> dict[str, Any]:
    """Return whether one bucket loses more of its clicks than the others."""
    moments = [_click_moments(arm_sums, lost[name], minutes) for name, arm_sums in arms.items()]
    if len(moments) < 2:
        return {"alarm": False, "lost": {name: float(loss.rate[-1]) for name, loss in zip(arms, moments, strict=True)}}
    gaps = dict(zip(arms, loss_gaps(moments, alpha=alpha), strict=True))
    alarms = {name: gap.alarm for name, gap in gaps.items() if gap.alarm.any()}
    return {
        "alarm": bool(alarms),
        "buckets": {name: int(minutes[alarm.argmax()] + 1) * MINUTE_MS for name, alarm in alarms.items()},
        "lost": {name: float(gap.rate[-1]) for name, gap in gaps.items()},
        "others": {name: float(gap.others[-1]) for name, gap in gaps.items()},
    }


def _click_moments(arm_sums: ArmSums, lost: ArmSums | None, minutes: NDArray[np.int64]) -> RatioMoments:
    """Return moments whose size is all clicks and whose total is those lost."""
    rows, gone = arm_sums.rows, (ArmSums(fields=1) if lost is None else lost).settle()
    clicked = rows.amounts[:, CLICKS]
    both = ArmSums(fields=2)
    both.add(rows.user, rows.minute * MINUTE_MS, np.stack((clicked, np.zeros_like(clicked)), axis=1))
    both.add(gone.user, gone.minute * MINUTE_MS, np.repeat(gone.amounts, 2, axis=1))
    rows = both.settle()
    inside = np.isin(rows.minute, minutes)
    when = np.searchsorted(minutes, rows.minute[inside])
    size, total = rows.amounts[inside].T
    return moments_over_time(rows.user[inside], when, size, total, bins=len(minutes))
