"""UBM with an attractiveness that is linear in vectors: for logs in which no two requests are alike.

Where vectors tell of users, what a policy shows was hardly ever logged in the same context, and there is nothing to
weigh. What can be told rests on a model like that of the bandits: γ = θ₀ + θᵀx, with θ from the log's own clicks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric, spread
from learner.evaluate.ips import check_metric
from learner.evaluate.lists import NOTHING, Ints, LoggedLists, Policy
from learner.evaluate.ubm import fitting_table
from learner.evaluate.units import added

MODEL = "none; attractiveness is linear in the vectors, learned from the log"
_NOTHING = 1e-10  # of the largest eigenvalue: in such directions there are no vectors, or a second constant


def ubm_linear(
    log: LoggedLists,
    policy: Policy,
    *,
    contexts: ArrayLike,
    policy_contexts: ArrayLike,
    examination: ArrayLike,
    metric: Metric = "sum",
    interval: Interval = ASYMPTOTIC,
) -> Estimate:
    """Return what ``policy`` would have earned per list from UBM users whose attraction is linear in the vectors.

    θ is the least-squares fit of clicks on w and w·x over the log. The interval knows that θ is estimated and that
    other requests might have come; it does not know how far attraction is from linear.

    Parameters
    ----------
    contexts, policy_contexts
        x of each row: (n, K, d) of the log, (m, L, d) of the policy's lists.
    examination
        w[k − 1, k′], K×K.

    Examples
    --------
    >>> log = LoggedLists.of([[1], [2], [1], [2]], [[1], [0], [1], [1]])
    >>> x = np.eye(2)[log.items - 1]
    >>> found = ubm_linear(log, Policy.of([[1]], [0]), contexts=x, policy_contexts=x[:1], examination=[[0.5]])
    >>> round(found.value, 6)
    1.0
    """
    check_metric(metric)
    table = fitting_table(examination, max(log.positions, policy.positions))
    rows, shows = (_with_constant(np.asarray(x, dtype=np.float64)) for x in (contexts, policy_contexts))
    for name, x, items in (("contexts", rows, log.items), ("policy_contexts", shows, policy.items)):
        if x.ndim != 3 or x.shape[:2] != items.shape or x.shape[2] != rows.shape[2]:
            raise ValueError(f"{name} must be vectors of one length for {items.shape} rows, got shape {x.shape[:-1]}")
    inside = log.items != NOTHING
    seen = np.where(inside, table[np.arange(log.positions), log.last_clicks], 0.0)
    clicks = (log.rewards > 0).astype(np.float64)
    fitted = _Fit(seen[:, :, None] * rows, clicks, log.rewards if metric == "sum" else clicks)
    shown = _Shown(policy, shows, table, metric, _places(log.contexts, policy.contexts))
    lists = len(log)
    solved = fitted.solve(np.ones(lists))
    value = float(shown.values(solved).mean())
    if interval.draws:
        error, low, high = interval.resampled(value, lambda counts: shown.mean(fitted.solve(counts), counts), lists)
    else:
        error = spread(shown.values(solved) + fitted.moves(solved, shown.gradients(solved)))
        low, high = interval.normal(value, error)
    spread_of_lists = float(log.rewards.sum(axis=1).var() if metric == "sum" else clicks.any(axis=1).var())
    return Estimate(
        *("UBM, linear attractiveness", metric, value, error, low, high, interval, lists),
        effective_lists=spread_of_lists / error**2 if error else 0.0,
        largest_weight=1.0,
        clipped=0.0,
        unsupported=0.0,
        lists_per_unit=float("inf"),
        propensities=MODEL,
        warnings=("rests on attractiveness being linear in the vectors, which the interval takes for granted",),
    )


@dataclass(frozen=True, slots=True)
class _Solved:
    inverse: Floats  # of Σ w² x xᵀ
    clicked: Floats  # θ of clicks
    earned: Floats  # θ of rewards


@dataclass(frozen=True, slots=True)
class _Fit:
    """Least squares of what rows gave on w·x, list by list."""

    weighted: Floats  # (n, K, d) w x
    clicks: Floats
    rewards: Floats

    def solve(self, counts: Floats) -> _Solved:
        dim = self.weighted.shape[2]
        flat = self.weighted.reshape(-1, dim)
        times = np.repeat(counts, self.weighted.shape[1])
        gram = (flat * times[:, None]).T @ flat
        inverse = np.asarray(np.linalg.pinv(gram, rcond=_NOTHING, hermitian=True), dtype=np.float64)
        of = [inverse @ (flat.T @ (times * given.reshape(-1))) for given in (self.clicks, self.rewards)]
        return _Solved(inverse, *of)

    def moves(self, solved: _Solved, gradients: tuple[Floats, Floats]) -> Floats:
        """Return how each list moves the value by moving θ: its score times what the value gains with θ."""
        moved = np.zeros(len(self.weighted))
        pairs = zip((self.clicks, self.rewards), (solved.clicked, solved.earned), gradients, strict=True)
        for given, theta, gradient in pairs:
            score = np.einsum("nk,nkd->nd", given - self.weighted @ theta, self.weighted)
            moved += len(self.weighted) * score @ solved.inverse @ gradient
        return moved


@dataclass(frozen=True, slots=True)
class _Shown:
    """The policy's lists, and the logged lists that each stands for."""

    policy: Policy
    contexts: Floats
    table: Floats
    metric: Metric
    places: tuple[Ints, Ints]  # the number of the context of each logged list, and of each of the policy's

    def _users(self, solved: _Solved) -> Browsing:
        inside = self.policy.items != NOTHING
        rates = (np.maximum(self.contexts @ theta, 0.0) for theta in (solved.clicked, solved.earned))
        gamma, worth = (np.where(inside, rate, 0.0) for rate in rates)
        return Browsing(gamma, self.table, worth)

    def values(self, solved: _Solved) -> Floats:
        """Return the policy's value in the context of each logged list."""
        users = self._users(solved)
        each = (users.rewards if self.metric == "sum" else users.first_rewards).sum(axis=1)
        logged, shown = self.places
        return added(shown, self.policy.chances * each, int(max(logged.max(), shown.max())) + 1)[logged]

    def mean(self, solved: _Solved, counts: Floats) -> float:
        """Return the mean value when each list was drawn so often."""
        return float(self.values(solved) @ counts / counts.sum())

    def gradients(self, solved: _Solved) -> tuple[Floats, Floats]:
        """Return what the mean value gains with θ of clicks, which moves k′, and with θ of rewards."""
        users, (logged, shown) = self._users(solved), self.places
        share = np.bincount(logged, minlength=int(shown.max()) + 1)[shown] / len(logged) * self.policy.chances
        if self.metric == "sum":
            moves, seen = users.slopes, users.exposures
        else:
            moves, seen = users.first_slopes, users.first_exposures
        worth = users.attractiveness if users.worth is None else users.worth
        parts = (moves * (users.attractiveness > 0), seen * (worth > 0))
        by_click, by_reward = (np.einsum("m,mk,mkd->d", share, part, self.contexts) for part in parts)
        return by_click, by_reward


def _with_constant(x: Floats) -> Floats:
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1) if x.ndim else x


def _places(logged: Ints, shown: Ints) -> tuple[Ints, Ints]:
    names, place = np.unique(logged, return_inverse=True)
    where = np.searchsorted(names, shown)
    known = where < len(names)
    known[known] = names[where[known]] == shown[known]
    if len(np.unique(where[known])) < len(names):
        raise ValueError("the policy must have a list for each logged context")
    return place, np.where(known, where, len(names))  # contexts that were not logged count for nobody
