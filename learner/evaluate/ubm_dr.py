"""The doubly-robust form of UBM-IPS: a guess of attractiveness, corrected by what the log's clicks say against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric
from learner.evaluate.ips import chances_of, check_contexts, check_metric, checked_logging
from learner.evaluate.lists import NOTHING, LoggedLists, Policy
from learner.evaluate.ubm import OBSERVED, browsed, fitting_table
from learner.evaluate.units import Ints, Units, added, number
from learner.evaluate.weighing import GIVEN, Target, Weighing


class Guess:
    """What an item is guessed to be worth in each context: its click chance γ and its reward ρ when examined.

    Parameters
    ----------
    attractiveness
        γ, (items,) if it is the same in all contexts, or (contexts, items).
    worth
        ρ of the same shape; None: 1 for each click.
    """

    def __init__(self, attractiveness: ArrayLike, worth: ArrayLike | None = None) -> None:
        self.attractiveness = np.asarray(attractiveness, dtype=np.float64)
        self.worth = self.attractiveness if worth is None else np.asarray(worth, dtype=np.float64)
        for values in (self.attractiveness, self.worth):
            if values.ndim not in (1, 2) or not (values >= 0).all() or not np.isfinite(values).all():
                raise ValueError(
                    "a guess must be finite numbers of at least 0, one per item or (contexts, items); "
                    f"got shape {values.shape}"
                )

    @classmethod
    def from_log(cls, log: LoggedLists, examination: ArrayLike) -> Guess:
        """Return each item's rates over all contexts of a log together, drawn to the mean as by one click more.

        >>> log = LoggedLists.of([[0, 1], [1, 2]], [[1, 0], [0, 1]])
        >>> Guess.from_log(log, [[1.0, 0.0], [1.0, 1.0]]).attractiveness
        array([0.66666667, 0.25      , 0.66666667])
        """
        shown = log.items != NOTHING
        seen = fitting_table(examination, log.positions)[np.arange(log.positions), log.last_clicks][shown]
        item = log.items[shown]
        mass = np.bincount(item, seen)

        def drawn(values: Floats) -> Floats:
            mean = values.sum() / seen.sum()
            more = seen.sum() / max(clicks.sum(), 1.0)  # the rows that the mean needs for a click
            return np.asarray((np.bincount(item, values) + more * mean) / (mass + more))

        clicks = (log.rewards > 0).astype(np.float64)[shown]
        return cls(drawn(clicks), drawn(log.rewards[shown]))

    def of(self, items: Ints, contexts: Ints) -> tuple[Floats, Floats]:
        """Return γ and ρ of lists of items, 0 beyond their end."""
        inside = items != NOTHING
        rows = contexts[:, None] if self.attractiveness.ndim == 2 else np.zeros((len(items), 1), dtype=np.int64)
        if items.max() >= self.attractiveness.shape[-1]:
            raise ValueError(f"the guess knows items up to {self.attractiveness.shape[-1] - 1}, not {items.max()}")
        clicked, earned = (np.atleast_2d(values)[rows, items] for values in (self.attractiveness, self.worth))
        return np.where(inside, np.minimum(clicked, 1.0), 0.0), np.where(inside, earned, 0.0)


def ubm_dr(
    log: LoggedLists,
    policy: Policy,
    *,
    examination: ArrayLike,
    guess: Guess,
    logging: Policy | None = None,
    metric: Metric = "sum",
    interval: Interval = ASYMPTOTIC,
) -> Estimate:
    """Return what ``policy`` would have earned per list from UBM users: a guess, corrected by the log.

    An item's γ is its guess and Σ (click − w · guess) / (lists · ⟨W̃, π⟩) on top, its reward likewise, and the policy's
    value follows from these by the chain of k′. If the guess is right there is no bias whatever π is taken for, and if
    π is right there is none whatever the guess; a good guess makes it steadier than UBM-IPS, which is the guess 0.
    Where π is what the log shows, this is UBM-IPS but for the items that the log never shows: they keep their guess.

    Parameters
    ----------
    examination
        w[k − 1, k′], K×K.
    guess
        It should come from other lists than those of ``log``.
    logging
        π, if it is known; what it shows after which click follows from the guess. None: what the log shows.
    """
    table = fitting_table(examination, max(log.positions, policy.positions))
    units = number("items", log, policy, *([logging] if logging else []), positions=policy.positions)
    check_contexts(log, units)
    check_metric(metric)
    shown = log.items != NOTHING
    clicked, earned = np.zeros(units.count), np.zeros(units.count)
    for where, lists in ((units.logged, log), (units.shown[0], policy)):
        clicked[where], earned[where] = guess.of(lists.items, lists.contexts)
    if metric == "set":
        earned = clicked
    given = known = None
    if logging is not None:
        checked_logging(np.where(shown, chances_of(units, 1, logging)[units.logged], 1.0), log)
        users = Browsing(guess.of(logging.items, logging.contexts)[0], table)
        known = added(units.shown[1], logging.chances[:, None] * users.exposures, units.count)
        given = np.where(shown, known[units.logged], 1.0)
    seen = np.where(shown, table[np.arange(log.positions), log.last_clicks], 0.0)
    clicks = (log.rewards > 0).astype(np.float64)

    weighing = Weighing(
        (log.rewards if metric == "sum" else clicks) - seen * earned[units.logged],
        seen,
        units,
        _target(units, policy, table, (clicked, earned), metric),
        clicks=clicks - seen * clicked[units.logged],
        logging=given,
        logged_masses=known,
        pooled=True,
    )
    source = OBSERVED if given is None else GIVEN
    return weighing.estimate(estimator="UBM-DR", metric=metric, interval=interval, propensities=source)


def _target(
    units: Units, policy: Policy, table: Floats, guessed: tuple[Floats, Floats], metric: Metric
) -> Callable[[Floats, Floats], Target]:
    """Return what gives ⟨W̃, Φ⟩ of each item from the guess and what the log adds to it."""
    inside = policy.items != NOTHING
    context = np.full(units.count, units.contexts)
    context[units.shown[0]] = units.context_of[0][:, None]

    def target(clicked: Floats, earned: Floats) -> Target:
        gamma, worth = (
            np.where(inside, (guess + more)[units.shown[0]], 0.0)
            for guess, more in zip(guessed, (clicked, earned), strict=True)
        )
        found = browsed(units, policy, Browsing(gamma, table, worth), metric)
        return replace(found, offset=added(context, found.masses * guessed[1], units.contexts + 1)[:-1])

    return target
