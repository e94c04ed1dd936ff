"""Inverse propensity scoring (IPS) of lists, prefixes or positions."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric
from learner.evaluate.lists import LoggedLists, Policy
from learner.evaluate.units import Units, added, number
from learner.evaluate.weighing import ESTIMATED, GIVEN, LOGGED, Target, Weighing

Over: TypeAlias = Literal["lists", "positions", "prefixes"]
NAMES: dict[Over, str] = {"lists": "IPS on sets", "positions": "item-position IPS", "prefixes": "cascade IPS"}


def ips(
    log: LoggedLists,
    policy: Policy,
    *,
    over: Over = "lists",
    logging: Policy | None = None,
    metric: Metric = "sum",
    clip: float | None = None,
    normalise: bool = False,
    interval: Interval = ASYMPTOTIC,
) -> Estimate:
    """Return what ``policy`` would have earned per list, weighing logged rewards by Φ/π.

    Only the first positions of the logged lists count, as many as the policy fills.

    Parameters
    ----------
    over
        What is weighed. ``lists``: whole lists, right for any users (IPS on sets). ``prefixes``: an item together with
        those above it, right if clicks depend on nothing below (reward-interaction IPS, McInerney et al. 2020).
        ``positions``: an item at a position, right if clicks depend on no other item (item-position model of
        Li et al. 2018).
    logging
        π, if it is known. Otherwise the log's own chances are taken if it has them, or its frequencies.
    metric
        ``set`` counts lists with a reward instead of rewards; not for ``positions``, which know no lists.
    clip
        The largest weight.
    normalise
        Divide by the mean weight of the column.

    Examples
    --------
    >>> log = LoggedLists.of([[1, 2], [2, 1], [1, 2], [2, 1]], [[1, 0], [0, 1], [1, 1], [0, 0]])
    >>> float(round(ips(log, Policy.of([[1, 2]])).value, 6))
    1.5
    """
    if over not in NAMES:
        raise ValueError(f"over must be one of {', '.join(NAMES)}; got {over!r}")
    rewards = trimmed(rewards_of(log, metric), policy.positions)
    if over == "positions" and metric == "set":
        raise ValueError("item-position IPS weighs single positions, so it cannot tell CTR_set; take over='prefixes'")
    if over == "lists":
        rewards = rewards.sum(axis=1, keepdims=True)
    units = number(over, log, policy, *([logging] if logging else []), positions=policy.positions)
    check_contexts(log, units)
    masses = chances_of(units, 0, policy)
    target = Target(masses, None, np.ones(units.contexts))
    given, known, source = logging_chances(log, logging, units, over, policy.positions)
    weighing = Weighing(
        rewards,
        np.ones(rewards.shape),
        units,
        lambda *_: target,
        logging=given,
        logged_masses=known,
        clip=clip,
        normalise=normalise,
    )
    name = NAMES[over] + (", self-normalised" if normalise else "") + (f", clipped at {clip:g}" if clip else "")
    return weighing.estimate(estimator=name, metric=metric, interval=interval, propensities=source)


def logging_chances(
    log: LoggedLists, logging: Policy | None, units: Units, over: Over, positions: int
) -> tuple[Floats | None, Floats | None, str]:
    """Return π of the logged rows and of all units as far as they are known, and where they come from."""
    if logging is not None:
        known = chances_of(units, 1, logging)
        return checked_logging(known[units.logged], log), known, GIVEN
    logged = log.position_chances if over == "positions" else log.chances
    if logged is None:
        return None, None, ESTIMATED
    logged = trimmed(logged, positions, 1.0)
    if over == "positions":
        return logged, None, LOGGED
    prefixes = np.asarray(np.cumprod(logged, axis=1), dtype=np.float64)
    return prefixes if over == "prefixes" else prefixes[:, -1:], None, LOGGED


def rewards_of(log: LoggedLists, metric: Metric) -> Floats:
    """Return the rewards that a metric adds up: all of them, or 1 for a list's first."""
    check_metric(metric)
    return log.rewards if metric == "sum" else log.first_rewards


def check_metric(metric: Metric) -> None:
    """Refuse what is no metric."""
    if metric not in ("sum", "set"):
        raise ValueError(f"metric must be 'sum' or 'set', got {metric!r}")


def chances_of(units: Units, which: int, policy: Policy) -> Floats:
    """Return the chance of each unit under the policy with that number."""
    shown = units.shown[which]
    return added(shown, np.broadcast_to(policy.chances[:, None], shown.shape), units.count)


def check_contexts(log: LoggedLists, units: Units) -> None:
    """Refuse a policy that is silent in a context that was logged."""
    for context_of in units.context_of:
        known = np.zeros(units.contexts + 1, dtype=np.bool_)
        known[context_of] = True
        if not known[:-1].all():
            at = int(np.argmin(known[units.context]))
            raise ValueError(f"list {at} was logged in context {log.contexts[at]}, for which a policy has no list")


def checked_logging(chances: Floats, log: LoggedLists) -> Floats:
    """Return π of the logged rows, none of which can be 0."""
    if np.any(impossible := chances <= 0):
        at = int(np.argwhere(impossible)[0][0])
        raise ValueError(f"list {at}, {log.items[at].tolist()}, was logged, but the logging policy never shows it so")
    return chances


def trimmed(rows: Floats, positions: int, beyond: float = 0.0) -> Floats:
    """Return rows of exactly ``positions`` columns, shorter ones filled up with ``beyond``."""
    if rows.shape[1] >= positions:
        return rows[:, :positions]
    return np.pad(rows, ((0, 0), (0, positions - rows.shape[1])), constant_values=beyond)
