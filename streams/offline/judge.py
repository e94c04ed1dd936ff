"""The work behind `glimpse evaluate`: what a snapshot's policy would have earned."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from learner.click_models import UBM
from learner.evaluate import (
    Browsing,
    Estimate,
    Guess,
    Interval,
    LoggedLists,
    NoSupport,
    cascade_dr,
    ips,
    support,
    ubm_dr,
    ubm_ips,
    ubm_ips_sequential,
    ubm_linear,
)
from learner.evaluate.estimate import ASYMPTOTIC, Metric
from learner.evaluate.units import Unit
from learner.evaluate.weighing import doubts
from streams.offline.fit import columns
from streams.offline.logs import LogError, Logs
from streams.offline.policy import Replay

ESTIMATORS: Final[dict[str, Unit]] = {
    "ubm-ips": "items",
    "ubm-dr": "items",
    "ubm-linear": "items",
    "ubm-ips-sequential": "items",
    "ips": "lists",
    "position-ips": "positions",
    "cascade-ips": "prefixes",
    "cascade-dr": "prefixes",
}
"""What they are called, and what each of them must have seen before it can weigh it."""

LITTLE: Final = 0.05  # of what the policy shows may be unheard of before it is said


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an estimator says of a policy, and what to beware of."""

    estimator: str
    estimates: list[Estimate]  # CTR_sum, and CTR_set where it can be told
    warnings: list[str]


def judge(
    logs: Logs,
    replayed: Replay,
    *,
    estimator: str = "ubm-ips",
    examination: NDArray[np.float64] | None = None,
    clip: float | None = None,
    normalise: bool = False,
    interval: Interval = ASYMPTOTIC,
) -> Judgement:
    """Return what the policy would have earned per list, by one estimator.

    Without ``examination`` the table is learned from the same log, which is said.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}; got {estimator!r}")
    over = ESTIMATORS[estimator]
    notes = list(replayed.notes) if over != "items" else []
    if estimator == "ubm-linear" or (over != "items" and logs.propensities is not None):
        replayed = replayed.by_request(logs)
    elif replayed.personal and replayed.requests is not None and over == "items":
        raise LogError(
            f"{logs.name}: an item's vectors differ between lists, so what {estimator} weighs was never logged twice; "
            "take ubm-linear, or ips where lists were drawn"
        )
    if examination is None and (estimator.startswith("ubm") or estimator == "cascade-dr"):
        examination = UBM().fit(**columns(logs)).examination
        notes.append(
            "the examination table was learned from this log; give one that was learned before with --examination"
        )
    log, policy = replayed.log, replayed.policy

    def estimate(metric: Metric) -> Estimate:
        if over != "items" and estimator != "cascade-dr":
            return ips(log, policy, over=over, metric=metric, clip=clip, normalise=normalise, interval=interval)
        assert examination is not None
        if estimator == "cascade-dr":
            return _cascade_dr(logs, replayed, examination, metric, clip=clip, interval=interval)
        if estimator == "ubm-linear":
            if replayed.vectors is None or logs.contexts is None:
                raise LogError(f"{logs.name} has no vectors that ubm-linear could learn from")
            vectors = {"contexts": logs.contexts, "policy_contexts": replayed.vectors}
            return ubm_linear(log, policy, examination=examination, metric=metric, interval=interval, **vectors)
        if estimator == "ubm-ips-sequential":
            drawn = interval if interval.draws else replace(interval, draws=200)
            return ubm_ips_sequential(log, policy, examination=examination, metric=metric, interval=drawn)
        if estimator == "ubm-dr":
            guess = Guess.from_log(log, examination)
            return ubm_dr(log, policy, examination=examination, guess=guess, metric=metric, interval=interval)
        return ubm_ips(
            log, policy, examination=examination, metric=metric, clip=clip, normalise=normalise, interval=interval
        )

    metrics: tuple[Metric, ...] = ("sum",) if estimator == "position-ips" else ("sum", "set")
    try:
        estimates = [estimate(metric) for metric in metrics]
    except NoSupport as error:
        raise LogError(f"{logs.place(_first_without(replayed, estimator))}: {error}; take another estimator") from error
    said = [text for each in estimates for text in each.warnings]
    notes += _unsupported(logs, replayed, estimator, estimates[0]) + said
    return Judgement(estimator, estimates, list(dict.fromkeys(notes)))


def logged(log: LoggedLists, interval: Interval) -> dict[str, tuple[float, float, float]]:
    """Return what the log itself earned per list, CTR_sum and CTR_set, with intervals."""
    each = {"sum": log.rewards.sum(axis=1), "set": (log.rewards > 0).any(axis=1).astype(np.float64)}
    return {
        metric: (rate := float(values.mean()), *interval.normal(rate, float(values.std() / np.sqrt(len(values)))))
        for metric, values in each.items()
    }


def _cascade_dr(
    logs: Logs, replayed: Replay, examination: NDArray[np.float64], metric: Metric, **options: Any
) -> Estimate:
    """Return the mean of two estimates, each half of the log with a UBM's guess from the other half."""
    even = np.arange(len(logs)) % 2 == 0
    if len(logs) < 2:
        raise LogError(f"{logs.name} has one list; cascade-dr learns its guess from one half for the other")
    on_even, on_odd = (
        cascade_dr(
            _part(replayed.log, half),
            replayed.policy,
            predicted=_guess(logs, ~half, replayed, examination, metric),
            metric=metric,
            **options,
        )
        for half in (even, ~even)
    )
    value = (on_even.value + on_odd.value) / 2
    error = float(np.hypot(on_even.standard_error, on_odd.standard_error)) / 2
    low, high = on_even.interval.normal(value, error)
    effective, per_unit = (
        on_even.effective_lists + on_odd.effective_lists,
        on_even.lists_per_unit + on_odd.lists_per_unit,
    )
    return replace(
        on_even,
        value=value,
        standard_error=error,
        low=low,
        high=high,
        lists=len(logs),
        effective_lists=effective,
        lists_per_unit=per_unit,
        warnings=doubts(len(logs), effective, per_unit if replayed.log.chances is None else np.inf),
        largest_weight=max(on_even.largest_weight, on_odd.largest_weight),
        clipped=(on_even.clipped + on_odd.clipped) / 2,
        unsupported=(on_even.unsupported + on_odd.unsupported) / 2,
    )


def _guess(
    logs: Logs, half: NDArray[np.bool_], replayed: Replay, examination: NDArray[np.float64], metric: Metric
) -> NDArray[np.float64]:
    items = replayed.policy.items
    queries = None if replayed.query is None else np.repeat(replayed.query, items.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells without rows do not matter: only the attractiveness is used
        model = UBM().fit(**columns(logs, half))
    gamma = model.attractiveness(items.reshape(-1), queries).reshape(items.shape)
    return Browsing(np.where(items < 0, 0.0, gamma), examination, metric=metric).rewards


def _part(log: LoggedLists, rows: NDArray[np.bool_]) -> LoggedLists:
    logged = (None if each is None else each[rows] for each in (log.chances, log.position_chances))
    return LoggedLists(log.items[rows], log.rewards[rows], log.contexts[rows], *logged)


def _first_without(replayed: Replay, estimator: str) -> int:
    """Return the first list in whose context not all of what the policy shows was logged."""
    return int(np.argmin(support(replayed.log, replayed.policy, ESTIMATORS[estimator]) >= 1 - 1e-9))


def _unsupported(logs: Logs, replayed: Replay, estimator: str, estimate: Estimate) -> list[str]:
    if estimate.unsupported <= LITTLE:
        return []
    where = logs.place(_first_without(replayed, estimator))
    guessed = "there the guess stands alone, of which the interval knows nothing"
    then = guessed if estimator.endswith("-dr") else "it counts as earning nothing"
    return [
        f"{estimate.unsupported:.1%} of what the policy shows was never logged in its context (first: {where}): {then}"
    ]
