"""The work behind `glimpse evaluate`: what a snapshot's policy would have earned."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Final

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
    ctr_set,
    ctr_sum,
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


@dataclass(frozen=True, slots=True)
class Options:
    """How to weigh."""

    clip: float | None = None
    normalise: bool = False
    interval: Interval = ASYMPTOTIC


PLAIN: Final = Options()


def judge(
    logs: Logs,
    found: Replay,
    *,
    estimator: str = "ubm-ips",
    examination: NDArray[np.float64] | None = None,
    options: Options = PLAIN,
) -> Judgement:
    """Return what the policy would have earned per list, by one estimator.

    Without ``examination`` the table is learned from the same log, which is said.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}; got {estimator!r}")
    notes = list(found.notes) if ESTIMATORS[estimator] != "items" else []
    if estimator == "ubm-linear" or (ESTIMATORS[estimator] != "items" and logs.propensities is not None):
        found = found.by_request(logs)
    elif found.personal and found.requests is not None and ESTIMATORS[estimator] == "items":
        raise LogError(
            f"{logs.name}: an item's vectors differ between lists, so what {estimator} weighs was never logged twice; "
            "take ubm-linear, or ips where lists were drawn"
        )
    if examination is None and (estimator.startswith("ubm") or estimator == "cascade-dr"):
        examination = UBM().fit(**columns(logs, np.ones(len(logs), dtype=np.bool_))).examination
        notes.append("the examination table was learned from this log; give one that was learned before with --table")
    metrics: tuple[Metric, ...] = ("sum",) if estimator == "position-ips" else ("sum", "set")
    try:
        estimates = [_estimate(estimator, logs, found, examination, options, metric) for metric in metrics]
    except NoSupport as error:
        raise LogError(f"{logs.place(_first_without(found, estimator))}: {error}; take another estimator") from error
    said = [text for estimate in estimates for text in estimate.warnings]
    notes += _unsupported(logs, found, estimator, estimates[0]) + said
    return Judgement(estimator, estimates, list(dict.fromkeys(notes)))


def logged(log: LoggedLists, interval: Interval) -> dict[str, tuple[float, float, float]]:
    """Return what the log itself earned per list, CTR_sum and CTR_set, with intervals."""
    each = {"sum": log.rewards.sum(axis=1), "set": (log.rewards > 0).any(axis=1).astype(np.float64)}
    rates = {"sum": ctr_sum(log.rewards), "set": ctr_set(log.rewards)}
    return {
        metric: (rates[metric], *interval.normal(rates[metric], float(values.std() / np.sqrt(len(values)))))
        for metric, values in each.items()
    }


def _estimate(
    estimator: str,
    logs: Logs,
    found: Replay,
    examination: NDArray[np.float64] | None,
    options: Options,
    metric: Metric,
) -> Estimate:
    log, policy, interval = found.log, found.policy, options.interval
    over = ESTIMATORS[estimator]
    if estimator == "cascade-dr" and examination is not None:
        return _cascade_dr(logs, found, examination, options, metric)
    if over != "items":
        return ips(
            log, policy, over=over, metric=metric, clip=options.clip, normalise=options.normalise, interval=interval
        )
    if examination is None:
        raise ValueError(f"{estimator} needs an examination table")
    if estimator == "ubm-linear":
        if found.vectors is None or logs.contexts is None:
            raise LogError(f"{logs.name} has no vectors that ubm-linear could learn from")
        vectors = {"contexts": logs.contexts, "policy_contexts": found.vectors}
        return ubm_linear(log, policy, examination=examination, metric=metric, interval=interval, **vectors)
    if estimator == "ubm-ips-sequential":
        drawn = interval if interval.draws else replace(interval, draws=200)
        return ubm_ips_sequential(log, policy, examination=examination, metric=metric, interval=drawn)
    if estimator == "ubm-dr":
        guess = Guess.from_log(log, examination)
        return ubm_dr(log, policy, examination=examination, guess=guess, metric=metric, interval=interval)
    return ubm_ips(
        log,
        policy,
        examination=examination,
        metric=metric,
        clip=options.clip,
        normalise=options.normalise,
        interval=interval,
    )


def _cascade_dr(
    logs: Logs, found: Replay, examination: NDArray[np.float64], options: Options, metric: Metric
) -> Estimate:
    """Return the mean of two estimates, each half of the log with a UBM's guess from the other half."""
    even = np.arange(len(logs)) % 2 == 0
    if len(logs) < 2:
        raise LogError(f"{logs.name} has one list; cascade-dr learns its guess from one half for the other")
    halves = [
        cascade_dr(
            _part(found.log, half),
            found.policy,
            predicted=_guess(logs, ~half, found, examination, metric),
            metric=metric,
            clip=options.clip,
            interval=options.interval,
        )
        for half in (even, ~even)
    ]
    one, other = halves
    value = (one.value + other.value) / 2
    error = float(np.hypot(one.standard_error, other.standard_error)) / 2
    low, high = options.interval.normal(value, error)
    effective, per_unit = one.effective_lists + other.effective_lists, one.lists_per_unit + other.lists_per_unit
    return replace(
        one,
        value=value,
        standard_error=error,
        low=low,
        high=high,
        lists=len(logs),
        effective_lists=effective,
        lists_per_unit=per_unit,
        warnings=doubts(len(logs), effective, per_unit if found.log.chances is None else np.inf),
        largest_weight=max(one.largest_weight, other.largest_weight),
        clipped=(one.clipped + other.clipped) / 2,
        unsupported=(one.unsupported + other.unsupported) / 2,
    )


def _guess(
    logs: Logs, half: NDArray[np.bool_], found: Replay, examination: NDArray[np.float64], metric: Metric
) -> NDArray[np.float64]:
    items = found.policy.items
    queries = None if found.query is None else np.repeat(found.query, items.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells without rows do not matter: only the attractiveness is used
        model = UBM().fit(**columns(logs, half))
    gamma = model.attractiveness(items.reshape(-1), queries).reshape(items.shape)
    users = Browsing(np.where(items < 0, 0.0, gamma), examination)
    return users.rewards if metric == "sum" else users.first_rewards


def _part(log: LoggedLists, rows: NDArray[np.bool_]) -> LoggedLists:
    logged = (None if each is None else each[rows] for each in (log.chances, log.position_chances))
    return LoggedLists(log.items[rows], log.rewards[rows], log.contexts[rows], *logged)


def _first_without(found: Replay, estimator: str) -> int:
    """Return the first list in whose context not all of what the policy shows was logged."""
    return int(np.argmin(support(found.log, found.policy, ESTIMATORS[estimator]) >= 1 - 1e-9))


def _unsupported(logs: Logs, found: Replay, estimator: str, estimate: Estimate) -> list[str]:
    if estimate.unsupported <= LITTLE:
        return []
    where = logs.place(_first_without(found, estimator))
    guessed = "there the guess stands alone, of which the interval knows nothing"
    then = guessed if estimator.endswith("-dr") else "it counts as earning nothing"
    return [
        f"{estimate.unsupported:.1%} of what the policy shows was never logged in its context (first: {where}): {then}"
    ]
