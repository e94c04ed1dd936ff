"""UBM-IPS with k′ drawn position by position: the paper's own procedure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.evaluate.estimate import Estimate, Floats, Interval, Metric
from learner.evaluate.lists import NOTHING, LoggedLists, Policy
from learner.evaluate.ubm import fitting_table, prepared

BOOTSTRAP = Interval(draws=200)


def ubm_ips_sequential(
    log: LoggedLists,
    policy: Policy,
    *,
    examination: ArrayLike,
    metric: Metric = "sum",
    seed: int = 0,
    interval: Interval = BOOTSTRAP,
) -> Estimate:
    """Return the policy's value as the paper simulates it for deterministic policies; others draw a list each time.

    For each logged list the policy's list of its context is walked down: the reward of a row is w[k, k′] · γ̂ with
    γ̂ = Σ reward / Σ w over the context's records of the item; it is a click if it is ≥ 1 or a coin of that chance
    says so, and a click becomes the k′ of the rows below. CTR_sum adds up the rewards, CTR_set the lists with a click.
    This is biased: k′ and the rewards come from the same clicks, and what exceeds 1 counts as 1. ``ubm_ips`` gives
    the mean over all coins.
    """
    if not interval.draws:
        raise ValueError("the sequential form has no asymptotic interval; take Interval(draws=200)")
    table = fitting_table(examination, max(log.positions, policy.positions))
    weighing, source = prepared(log, policy, examination, metric=metric)
    random = np.random.default_rng(seed)
    units = weighing.units
    order = np.argsort(units.context_of[0], kind="stable")
    up_to = np.cumsum(policy.chances[order])  # each context adds 1
    starts = np.searchsorted(units.context_of[0][order], np.arange(units.contexts + 1))

    def value(counts: Floats) -> float:
        drawn = np.searchsorted(up_to, units.context + random.random(len(log)), side="right")
        which = order[np.clip(drawn, starts[units.context], starts[units.context + 1] - 1)]
        gamma = weighing.rates(counts)[units.shown[0][which]] * (policy.items[which] != NOTHING)
        rewards, clicked = walk(gamma, table, random)
        return float(counts @ (rewards.sum(axis=1) if metric == "sum" else clicked) / counts.sum())

    error, low, high = interval.resampled(value, len(log))
    expected = weighing.estimate(
        estimator="UBM-IPS, sequential", metric=metric, interval=Interval(), propensities=source
    )
    return replace(
        expected,
        value=value(np.ones(len(log))),
        standard_error=error,
        low=low,
        high=high,
        interval=interval,
    )


def walk(attractiveness: Floats, table: Floats, random: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the simulated rewards (lists, L), and whether each list was clicked."""
    rewards = np.zeros(attractiveness.shape)
    last = np.zeros(len(attractiveness), dtype=np.int64)
    for k in range(attractiveness.shape[1]):  # all lists at once: each row waits for the click above it
        rewards[:, k] = table[k, last] * attractiveness[:, k]
        last[random.random(len(last)) < rewards[:, k]] = k + 1  # a reward of 1 or more always is a click
    return rewards, last > 0
