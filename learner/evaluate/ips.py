"""Inverse propensity scoring (IPS) of lists, prefixes or positions, and its doubly-robust form for prefixes."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric, check_metric
from learner.evaluate.lists import LoggedLists, Policy
from learner.evaluate.units import Units, added, answered, cut
from learner.evaluate.weighing import ESTIMATED, GIVEN, LOGGED, Target, Weighing, checked_logging

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
    if over == "positions" and metric == "set":
        raise ValueError("item-position IPS weighs single positions, so it cannot tell CTR_set; take over='prefixes'")
    weighing = _prepared(log, policy, over, logging, metric, clip=clip, normalise=normalise)
    return weighing.estimate(weighing.named(NAMES[over]), metric, interval)


def cascade_dr(
    log: LoggedLists,
    policy: Policy,
    *,
    predicted: ArrayLike,
    logging: Policy | None = None,
    metric: Metric = "sum",
    clip: float | None = None,
    interval: Interval = ASYMPTOTIC,
) -> Estimate:
    """Return what ``policy`` would have earned: a guess, corrected by what the log says where lists begin alike.

    With Q̂ₖ the guess of all that follows from position k on, given the items down to k, and ωₖ the weight of that
    prefix, a list says Σₖ ωₖ (rₖ − Q̂ₖ) + ωₖ₋₁ E[Q̂ₖ] (Kiyohara et al. 2022). It is right if clicks depend on nothing
    below and either the chances or the guess are right; a good guess makes it steadier than cascade IPS, which is the
    guess 0.

    Parameters
    ----------
    predicted
        (m, L) the guessed reward of each row of the policy's own lists, such as ``Browsing(γ, w).rewards``; for the
        metric ``set`` the chance of the list's first click there. It should not come from the same log.
    """
    guess = np.asarray(predicted, dtype=np.float64)
    if guess.shape != policy.items.shape or not np.isfinite(guess).all():
        raise ValueError(f"predicted must be finite numbers of shape {policy.items.shape}, got shape {guess.shape}")
    weighing = _prepared(log, policy, "prefixes", logging, metric, clip=clip, predicted=guess)
    return weighing.estimate("cascade DR", metric, interval)


def _prepared(
    log: LoggedLists,
    policy: Policy,
    over: Over,
    logging: Policy | None,
    metric: Metric,
    *,
    clip: float | None,
    normalise: bool = False,
    predicted: Floats | None = None,
) -> Weighing:
    """Return the estimator before the lists are counted."""
    check_metric(metric)
    rewards = cut(log.rewards if metric == "sum" else log.first_rewards, policy.positions, 0.0)
    if over == "lists":
        rewards = rewards.sum(axis=1, keepdims=True)
    units = answered(over, log, policy, logging)
    masses, said = units.masses(0, policy), None
    given, known, source = _logging_chances(log, logging, units, over, policy.positions)
    if predicted is not None:
        ahead = policy.chances[:, None] * np.cumsum(predicted[:, ::-1], axis=1)[:, ::-1]  # guessed from k on
        onward = np.hstack([ahead[:, 1:], np.zeros((len(policy), 1))])  # from k + 1 on
        correction = added(units.shown[0], onward - ahead, units.count)
        rewards = rewards + np.divide(correction, masses, out=np.zeros(units.count), where=masses > 0)[units.logged]
        said = added(units.context_of[0], ahead[:, 0], units.contexts + 1)[:-1]
    target, measures = Target(masses, None, np.ones(units.contexts), said), np.ones(rewards.shape)
    return Weighing(
        rewards,
        measures,
        units,
        lambda *_: target,
        logging=given,
        logged_masses=known,
        clip=clip,
        normalise=normalise,
        propensities=source,
    )


def _logging_chances(
    log: LoggedLists, logging: Policy | None, units: Units, over: Over, positions: int
) -> tuple[Floats | None, Floats | None, str]:
    """Return π of the logged rows and of all units as far as they are known, and where they come from."""
    if logging is not None:
        known = units.masses(1, logging)
        return checked_logging(known[units.logged], log), known, GIVEN
    logged = log.position_chances if over == "positions" else log.chances
    if logged is None:
        return None, None, ESTIMATED
    logged = cut(logged, positions, 1.0)
    if over == "positions":
        return logged, None, LOGGED
    prefixes = np.asarray(np.cumprod(logged, axis=1), dtype=np.float64)
    return prefixes if over == "prefixes" else prefixes[:, -1:], None, LOGGED
