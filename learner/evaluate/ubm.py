"""UBM-IPS, the paper's estimator of a policy's value among users who browse by UBM.

A user who examines item a clicks it with chance γ(a), wherever it stands, so that only the chance of being examined,
⟨W̃, Φ(a,·,·)⟩ = Σ w[k, k′] Φ(a, k, k′), differs between two policies, and a logged reward counts
⟨W̃, Φ(a,·,·)⟩ / ⟨W̃, π(a,·,·)⟩ times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from learner.browsing import checked_table
from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric
from learner.evaluate.ips import chances_of, check_contexts, check_metric, checked_logging
from learner.evaluate.lists import NOTHING, LoggedLists, Policy
from learner.evaluate.units import Ints, Units, added, number
from learner.evaluate.weighing import GIVEN, Target, Weighing

OBSERVED = "examination in each context as the log shows it, Σ w[k, k′] / lists"


class Attractiveness:
    """γ of items in contexts: (items,) if it is the same in all contexts, or (contexts, items)."""

    def __init__(self, values: ArrayLike) -> None:
        self.values = np.asarray(values, dtype=np.float64)
        if self.values.ndim not in (1, 2) or not ((self.values >= 0) & (self.values <= 1)).all():
            raise ValueError(
                "attractiveness must be chances in [0, 1], one per item, or (contexts, items); "
                f"got shape {self.values.shape}"
            )

    def of(self, items: Ints, contexts: Ints) -> Floats:
        """Return γ of lists of items, 0 beyond their end."""
        known = self.values if self.values.ndim == 2 else self.values[None]
        rows = contexts if self.values.ndim == 2 else np.zeros_like(contexts)
        if items.max() >= known.shape[1] or rows.max() >= len(known):
            raise ValueError(
                f"attractiveness has shape {self.values.shape}, but there are items up to {items.max()} "
                f"and contexts up to {contexts.max()}"
            )
        return np.where(items == NOTHING, 0.0, known[rows[:, None], items])


def ubm_ips(
    log: LoggedLists,
    policy: Policy,
    *,
    examination: ArrayLike,
    attractiveness: ArrayLike | None = None,
    logging: Policy | None = None,
    metric: Metric = "sum",
    clip: float | None = None,
    normalise: bool = False,
    interval: Interval = ASYMPTOTIC,
) -> Estimate:
    """Return what ``policy`` would have earned per list from users who browse by UBM.

    Where k′ stands under the policy depends on what its users click, which is not known. With ``attractiveness`` the
    marginals Φ(a, k, k′) are exact, and with ``logging`` those of π too: then the estimate has no bias. Without them
    π's are what the log shows, and Φ's follow from γ̂ = Σ click / Σ w of the log: the mean of the paper's sequential
    form over all the k′ that it could draw. What a click is worth, Σ reward / Σ w, does not move k′.

    Parameters
    ----------
    examination
        w[k − 1, k′], K×K.
    attractiveness
        γ of each item, (items,) or (contexts, items); None to estimate it.
    logging
        π, if it is known; it takes ``attractiveness`` to know what it shows after which click.
    metric
        ``set`` is E[F(S)] = Σ γ(a) w[k, 0] Φ(a, k, 0): the same clicks, weighed by the chance to be examined first.
    clip, normalise
        As in ``ips``; the mean weight is that of what was examined.

    Examples
    --------
    >>> log = LoggedLists.of([[1, 2], [2, 1]], [[1, 0], [0, 1]])
    >>> float(ubm_ips(log, Policy.of([[1, 2]]), examination=[[1.0, 0.0], [0.5, 0.5]]).value.__round__(4))
    1.3333
    """
    weighing, source = prepared(
        log, policy, examination, attractiveness, logging, metric=metric, clip=clip, normalise=normalise
    )
    name = "UBM-IPS" + (", self-normalised" if normalise else "") + (f", clipped at {clip:g}" if clip else "")
    return weighing.estimate(estimator=name, metric=metric, interval=interval, propensities=source)


def prepared(
    log: LoggedLists,
    policy: Policy,
    examination: ArrayLike,
    attractiveness: ArrayLike | None = None,
    logging: Policy | None = None,
    *,
    metric: Metric,
    clip: float | None = None,
    normalise: bool = False,
) -> tuple[Weighing, str]:
    """Return the estimator before the lists are counted, and where π's chances come from."""
    table = fitting_table(examination, max(log.positions, policy.positions))
    if logging is not None and attractiveness is None:
        raise ValueError("a known logging policy takes the attractiveness too: k′ below a row depends on it")
    units = number("items", log, policy, *([logging] if logging else []), positions=policy.positions)
    check_contexts(log, units)
    gamma = None if attractiveness is None else Attractiveness(attractiveness)
    shown = log.items != NOTHING
    given = known = None
    if logging is not None and gamma is not None:
        checked_logging(np.where(shown, chances_of(units, 1, logging)[units.logged], 1.0), log)
        users = Browsing(gamma.of(logging.items, logging.contexts), table)
        known = _masses(units, 1, logging, users.exposures)
        given = known[units.logged]
    check_metric(metric)
    clicks = (log.rewards > 0).astype(np.float64)
    return Weighing(
        log.rewards if metric == "sum" else clicks,
        np.where(shown, table[np.arange(log.positions), log.last_clicks], 0.0),
        units,
        _target(units, policy, table, gamma, metric),
        clicks=clicks,
        logging=given,
        logged_masses=known,
        clip=clip,
        normalise=normalise,
        pooled=True,
    ), OBSERVED if given is None else GIVEN


def _target(
    units: Units, policy: Policy, table: Floats, gamma: Attractiveness | None, metric: Metric
) -> Callable[[Floats, Floats], Target]:
    """Return what gives ⟨W̃, Φ⟩ of each item: always the same if γ is known, else from the items' rates in the log."""
    if gamma is not None:
        exact = browsed(units, policy, Browsing(gamma.of(policy.items, policy.contexts), table), metric)
        known = Target(exact.masses, None, exact.expected)
        return lambda clicked, earned: known
    inside = policy.items != NOTHING

    def target(clicked: Floats, earned: Floats) -> Target:
        gamma, worth = (np.where(inside, rate[units.shown[0]], 0.0) for rate in (clicked, earned))
        return browsed(units, policy, Browsing(gamma, table, worth), metric)

    return target


def browsed(units: Units, policy: Policy, users: Browsing, metric: Metric) -> Target:
    """Return what these users, who were shown the policy's lists, examine of each item, and how clicks move that."""
    inside = policy.items != NOTHING
    first = metric == "set"
    seen = inside * (users.first_exposures if first else users.exposures)
    slopes = inside * (users.first_slopes if first else users.slopes)
    expected = added(units.context_of[0], policy.chances * seen.sum(axis=1), units.contexts + 1)[:-1]
    return Target(_masses(units, 0, policy, seen), _masses(units, 0, policy, slopes), expected)


def _masses(units: Units, which: int, policy: Policy, seen: Floats) -> Floats:
    return added(units.shown[which], policy.chances[:, None] * seen, units.count)


def fitting_table(examination: ArrayLike, positions: int) -> Floats:
    """Return a checked table that covers lists of ``positions``."""
    table = checked_table(examination)
    if len(table) < positions:
        raise ValueError(f"examination covers {len(table)} positions, but there are lists of {positions}; fit it anew")
    return table
