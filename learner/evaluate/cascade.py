"""The cascade doubly-robust estimator (Kiyohara et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Interval, Metric
from learner.evaluate.ips import chances_of, check_contexts, logging_chances, rewards_of, trimmed
from learner.evaluate.lists import LoggedLists, Policy
from learner.evaluate.units import added, number
from learner.evaluate.weighing import Target, Weighing


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
    prefix, a list says Σₖ ωₖ (rₖ − Q̂ₖ) + ωₖ₋₁ E[Q̂ₖ]. It is right if clicks depend on nothing below and either the
    chances or the guess are right; a good guess makes it steadier than cascade IPS, which is the guess 0.

    Parameters
    ----------
    predicted
        (m, L) the guessed reward of each row of the policy's own lists, such as ``Browsing(γ, w).rewards``; for the
        metric ``set`` the chance of the list's first click there. It should not come from the same log.
    """
    guess = np.asarray(predicted, dtype=np.float64)
    if guess.shape != policy.items.shape or not np.isfinite(guess).all():
        raise ValueError(f"predicted must be finite numbers of shape {policy.items.shape}, got shape {guess.shape}")
    units = number("prefixes", log, policy, *([logging] if logging else []), positions=policy.positions)
    check_contexts(log, units)
    masses = chances_of(units, 0, policy)
    given, known, source = logging_chances(log, logging, units, "prefixes", policy.positions)
    ahead = policy.chances[:, None] * np.cumsum(guess[:, ::-1], axis=1)[:, ::-1]  # guessed from k on
    onward = np.hstack([ahead[:, 1:], np.zeros((len(policy), 1))])  # from k + 1 on
    correction = added(units.shown[0], onward - ahead, units.count)
    correction = np.divide(correction, masses, out=np.zeros(units.count), where=masses > 0)
    said = added(units.context_of[0], ahead[:, 0], units.contexts + 1)[:-1]
    target = Target(masses, None, np.ones(units.contexts), said)
    rewards = trimmed(rewards_of(log, metric), policy.positions) + correction[units.logged]
    weighing = Weighing(
        rewards,
        np.ones(rewards.shape),
        units,
        lambda *_: target,
        logging=given,
        logged_masses=known,
        clip=clip,
    )
    return weighing.estimate(estimator="cascade DR", metric=metric, interval=interval, propensities=source)
