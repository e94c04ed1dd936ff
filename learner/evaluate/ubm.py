"""UBM-IPS, the paper's estimator of a policy's value among users who browse by UBM, and its doubly-robust form.

A user who examines item a clicks it with chance γ(a), wherever it stands, so that only the chance of being examined,
⟨W̃, Φ(a,·,·)⟩ = Σ w[k, k′] Φ(a, k, k′), differs between two policies, and a logged reward counts
⟨W̃, Φ(a,·,·)⟩ / ⟨W̃, π(a,·,·)⟩ times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import checked_table
from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric, check_metric
from learner.evaluate.lists import BEYOND_END, Ints, LoggedLists, Policy
from learner.evaluate.units import added, answered
from learner.evaluate.weighing import GIVEN, Target, Weighing, checked_logging

BOOTSTRAP = Interval(draws=200)
SATURATED = (
    "drawn clicks cannot exceed 1 while γ̂ can, so CTR_set comes out too low: by 17% with one record per context, by "
    "less with more; ubm-ips has no such bias"
)
OBSERVED = "examination in each context as the log shows it, Σ w[k, k′] / lists"


class Guess:
    """What an item is guessed to be worth in each context: its click chance γ and its reward ρ when examined.

    Both are (items,) if they are the same in all contexts, or (contexts, items); without ``worth`` a click is worth 1.
    """

    def __init__(self, attractiveness: ArrayLike, worth: ArrayLike | None = None) -> None:
        self.attractiveness = np.asarray(attractiveness, dtype=np.float64)
        self.worth = self.attractiveness if worth is None else np.asarray(worth, dtype=np.float64)
        for values in (self.attractiveness, self.worth):
            if values.ndim not in (1, 2) or not (values >= 0).all() or not np.isfinite(values).all():
                raise ValueError(
                    "attractiveness and worth must be finite numbers of at least 0, one per item or (contexts, items); "
                    f"got shape {values.shape}"
                )

    @classmethod
    def from_log(cls, log: LoggedLists, examination: ArrayLike) -> Guess:
        """Return each item's rates over all contexts of a log together, drawn to the mean as by one click more.

        >>> log = LoggedLists.of([[0, 1], [1, 2]], [[1, 0], [0, 1]])
        >>> Guess.from_log(log, [[1.0, 0.0], [1.0, 1.0]]).attractiveness
        array([0.66666667, 0.25      , 0.66666667])
        """
        shown = log.items != BEYOND_END
        seen = seen_chances(log, fitting_table(examination, log.positions))[shown]
        item = log.items[shown]
        mass = np.bincount(item, seen)

        def drawn(values: Floats) -> Floats:
            mean = values.sum() / seen.sum()
            more = seen.sum() / max(clicks.sum(), 1.0)  # the rows that the mean needs for a click
            return np.asarray((np.bincount(item, values) + more * mean) / (mass + more))

        clicks = log.clicks[shown]
        return cls(drawn(clicks), drawn(log.rewards[shown]))

    def of(self, items: Ints, contexts: Ints) -> tuple[Floats, Floats]:
        """Return γ, at most 1, and ρ of lists of items, 0 beyond their end."""
        known = np.atleast_2d(self.attractiveness)
        rows = contexts if self.attractiveness.ndim == 2 else np.zeros_like(contexts)
        if items.max() >= known.shape[1] or rows.max() >= len(known):
            raise ValueError(
                f"attractiveness has shape {self.attractiveness.shape}, but there are items up to {items.max()} "
                f"and contexts up to {contexts.max()}"
            )
        clicked, earned = (
            np.where(items == BEYOND_END, 0.0, values[rows[:, None], items])
            for values in (known, np.atleast_2d(self.worth))
        )
        return np.minimum(clicked, 1.0), earned


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
    known = None if attractiveness is None else Guess(attractiveness)
    if known is not None and (known.attractiveness > 1).any():
        raise ValueError(f"attractiveness must be chances in [0, 1], got {known.attractiveness.max():g}")
    if logging is not None and known is None:
        raise ValueError("a known logging policy takes the attractiveness too: k′ below a row depends on it")
    weighing = prepared(
        log, policy, examination, known, logging, metric=metric, exact=True, clip=clip, normalise=normalise
    )
    return weighing.estimate(weighing.named("UBM-IPS"), metric, interval)


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
    weighing = prepared(log, policy, examination, guess, logging, metric=metric)
    return weighing.estimate("UBM-DR", metric, interval)


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

    For each logged list the policy's list of its context is walked down: a row is clicked if w[k, k′] · γ̂ is ≥ 1 or a
    coin of that chance says so, γ̂ = Σ click / Σ w over the context's records of the item, and a click becomes the k′ of
    the rows below; the reward of the row is w[k, k′] · Σ reward / Σ w. CTR_sum adds up the rewards, CTR_set the lists
    with a click. This is biased: k′ and the rewards come from the same clicks, and what exceeds 1 counts as 1.
    ``ubm_ips`` gives the mean over all coins.
    """
    if not interval.draws:
        raise ValueError("the sequential form has no asymptotic interval; take Interval(draws=200)")
    table = fitting_table(examination, max(log.positions, policy.positions))
    weighing = prepared(log, policy, examination, metric=metric)
    random = np.random.default_rng(seed)
    units = weighing.units
    order = np.argsort(units.context_of[0], kind="stable")
    up_to = np.cumsum(policy.chances[order])  # each context adds 1
    starts = np.searchsorted(units.context_of[0][order], np.arange(units.contexts + 1))

    def value(counts: Floats) -> float:
        drawn = np.searchsorted(up_to, units.context + random.random(len(log)), side="right")
        which = order[np.clip(drawn, starts[units.context], starts[units.context + 1] - 1)]
        inside = policy.items[which] != BEYOND_END
        gamma, worth = (
            inside * weighing.rates(values, counts)[units.shown[0][which]] for values in (log.clicks, log.rewards)
        )
        rewards, clicked = walk(gamma, worth, table, random)
        return float(counts @ (rewards.sum(axis=1) if metric == "sum" else clicked) / counts.sum())

    told = value(np.ones(len(log)))
    error, low, high = interval.resampled(told, value, len(log))
    expected = weighing.estimate("UBM-IPS, sequential", metric, Interval())
    return replace(
        expected,
        value=told,
        standard_error=error,
        low=low,
        high=high,
        interval=interval,
        warnings=expected.warnings + ((SATURATED,) if metric == "set" else ()),
    )


def prepared(
    log: LoggedLists,
    policy: Policy,
    examination: ArrayLike,
    guess: Guess | None = None,
    logging: Policy | None = None,
    *,
    metric: Metric,
    exact: bool = False,
    clip: float | None = None,
    normalise: bool = False,
) -> Weighing:
    """Return the estimator before the lists are counted.

    A guess that is ``exact`` says what users examine, and the log's clicks correct nothing of it.
    """
    table = fitting_table(examination, max(log.positions, policy.positions))
    units = answered("items", log, policy, logging)
    check_metric(metric)
    shown, inside = log.items != BEYOND_END, policy.items != BEYOND_END
    seen = seen_chances(log, table)
    clicked, earned = np.zeros(units.count), np.zeros(units.count)  # as guessed; without a guess, 0
    if guess is not None and not exact:
        for where, lists in ((units.logged, log), (units.shown[0], policy)):
            clicked[where], earned[where] = guess.of(lists.items, lists.contexts)
        earned = earned if metric == "sum" else clicked
    given = known = None
    if logging is not None and guess is not None:
        checked_logging(np.where(shown, units.masses(1, logging)[units.logged], 1.0), log)
        users = Browsing(guess.of(logging.items, logging.contexts)[0], table)
        known = units.masses(1, logging, users.exposures)
        given = np.where(shown, known[units.logged], 1.0)
    context = np.full(units.count, units.contexts)
    context[units.shown[0]] = units.context_of[0][:, None]

    def browsed(users: Browsing) -> Target:
        """Return what these users, who were shown the policy's lists, examine of each item, and how clicks move it."""
        exposures = inside * users.exposures
        masses = units.masses(0, policy, exposures)
        expected = added(units.context_of[0], policy.chances * exposures.sum(axis=1), units.contexts + 1)[:-1]
        offset = added(context, masses * earned, units.contexts + 1)[:-1]
        return Target(masses, units.masses(0, policy, inside * users.slopes), expected, offset)

    settled = None
    if guess is not None and exact:
        users = Browsing(guess.of(policy.items, policy.contexts)[0], table, metric=metric)
        settled = replace(browsed(users), slopes=None)

    def target(click_rates: Floats, rates: Floats) -> Target:
        if settled is not None:
            return settled
        gamma, worth = (
            np.where(inside, (guessed + more)[units.shown[0]], 0.0)
            for guessed, more in ((clicked, click_rates), (earned, rates))
        )
        return browsed(Browsing(gamma, table, worth, metric))

    return Weighing(
        (log.rewards if metric == "sum" else log.clicks) - seen * earned[units.logged],
        seen,
        units,
        target,
        clicks=log.clicks - seen * clicked[units.logged],
        logging=given,
        logged_masses=known,
        clip=clip,
        normalise=normalise,
        pooled=True,
        propensities=OBSERVED if given is None else GIVEN,
    )


def walk(
    attractiveness: Floats, worth: Floats, table: Floats, random: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the simulated rewards (lists, L), and whether each list was clicked."""
    rewards = np.zeros(attractiveness.shape)
    last = np.zeros(len(attractiveness), dtype=np.int64)
    for k in range(attractiveness.shape[1]):  # all lists at once: each row waits for the click above it
        seen = table[k, last]
        rewards[:, k] = seen * worth[:, k]
        last[random.random(len(last)) < seen * attractiveness[:, k]] = k + 1  # a chance of 1 or more always is a click
    return rewards, last > 0


def seen_chances(log: LoggedLists, table: Floats) -> Floats:
    """Return w[k, k′] of each logged row, 0 beyond a list's end."""
    return np.where(log.items != BEYOND_END, table[np.arange(log.positions), log.last_clicks], 0.0)


def fitting_table(examination: ArrayLike, positions: int) -> Floats:
    """Return a checked table that covers lists of ``positions``."""
    table = checked_table(examination)
    if len(table) < positions:
        raise ValueError(f"examination covers {len(table)} positions, but there are lists of {positions}; fit it anew")
    return table
