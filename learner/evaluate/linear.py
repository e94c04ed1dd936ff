"""UBM with an attractiveness that is linear in vectors: for logs in which no two requests are alike.

Where vectors tell of users, what a policy shows was hardly ever logged in the same context, and there is nothing to
weigh. What can be told rests on a model like that of the bandits: γ = θ₀ + θᵀx, with θ from the log's own clicks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import ASYMPTOTIC, Estimate, Floats, Interval, Metric, check_metric
from learner.evaluate.lists import BEYOND_END, Ints, LoggedLists, Policy
from learner.evaluate.ubm import fitting_table, seen_chances
from learner.evaluate.units import added, context_numbers

MODEL = "none; attractiveness is linear in the vectors, learned from the log"
_NEGLIGIBLE = 1e-10  # of the largest eigenvalue: in such directions there are no vectors, or a second constant


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
    >>> estimate = ubm_linear(log, Policy.of([[1]], [0]), contexts=x, policy_contexts=x[:1], examination=[[0.5]])
    >>> round(estimate.value, 6)
    1.0
    """
    check_metric(metric)
    table = fitting_table(examination, max(log.positions, policy.positions))
    rows, shows = (_with_constant(np.asarray(x, dtype=np.float64)) for x in (contexts, policy_contexts))
    for name, x, items in (("contexts", rows, log.items), ("policy_contexts", shows, policy.items)):
        if x.ndim != 3 or x.shape[:2] != items.shape or x.shape[2] != rows.shape[2]:
            raise ValueError(f"{name} must be vectors of one length for {items.shape} rows, got shape {x.shape[:-1]}")
    clicks, (logged, shown) = log.clicks, _numbers(log.contexts, policy.contexts)
    weighted = seen_chances(log, table)[:, :, None] * rows
    rewards = log.rewards if metric == "sum" else clicks
    model = _Linear(
        weighted=weighted,
        given=(clicks, rewards),
        policy=policy,
        contexts=shows,
        table=table,
        metric=metric,
        logged=logged,
        shown=shown,
    )
    lists = len(log)
    fit = model.fit(np.ones(lists))
    value = float(model.values(fit).mean())
    error, low, high = interval.around(value, lists, model.mean, lambda: model.values(fit) + model.moves(fit))
    spread_of_lists = float(log.rewards.sum(axis=1).var() if metric == "sum" else clicks.any(axis=1).var())
    return Estimate(
        estimator="UBM, linear attractiveness",
        metric=metric,
        value=value,
        standard_error=error,
        low=low,
        high=high,
        interval=interval,
        lists=lists,
        effective_lists=spread_of_lists / error**2 if error else 0.0,
        largest_weight=1.0,
        clipped=0.0,
        unsupported=0.0,
        lists_per_unit=float("inf"),
        propensities=MODEL,
        warnings=("rests on attractiveness being linear in the vectors, which the interval takes for granted",),
    )


@dataclass(frozen=True, slots=True)
class _Linear:
    """Least squares of what logged rows gave on w·x, and the policy's lists, whose value follows."""

    weighted: Floats  # (n, K, d) w x
    given: tuple[Floats, Floats]  # (n, K) clicks and rewards
    policy: Policy
    contexts: Floats  # of the policy's rows
    table: Floats
    metric: Metric
    logged: Ints  # the number of the context of each logged list …
    shown: Ints  # … and of each of the policy's

    def fit(self, counts: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the inverse of Σ w² x xᵀ, θ of clicks and θ of rewards when each list was drawn so often."""
        flat = self.weighted.reshape(-1, self.weighted.shape[2])
        times = np.repeat(counts, self.weighted.shape[1])
        gram = (flat * times[:, None]).T @ flat
        inverse = np.asarray(np.linalg.pinv(gram, rcond=_NEGLIGIBLE, hermitian=True), dtype=np.float64)
        clicked, earned = (inverse @ (flat.T @ (times * given.reshape(-1))) for given in self.given)
        return inverse, clicked, earned

    def values(self, fit: tuple[Floats, Floats, Floats]) -> Floats:
        """Return the policy's value in the context of each logged list."""
        each = self._users(fit).rewards.sum(axis=1)
        contexts = int(max(self.logged.max(), self.shown.max())) + 1
        return added(self.shown, self.policy.chances * each, contexts)[self.logged]

    def mean(self, counts: Floats) -> float:
        """Return the mean value when each list was drawn so often."""
        return float(self.values(self.fit(counts)) @ counts / counts.sum())

    def moves(self, fit: tuple[Floats, Floats, Floats]) -> Floats:
        """Return how each list moves the value by moving θ: its score times what the mean value gains with θ.

        θ of clicks moves k′, that of rewards what is earned.
        """
        inverse, *thetas = fit
        users = self._users(fit)
        of_context = np.bincount(self.logged, minlength=int(self.shown.max()) + 1)[self.shown]
        share = of_context / len(self.logged) * self.policy.chances
        gains = users.slopes * (users.attractiveness > 0), users.exposures * (np.asarray(users.worth) > 0)
        moved = np.zeros(len(self.weighted))
        for given, theta, gain in zip(self.given, thetas, gains, strict=True):
            score = np.einsum("nk,nkd->nd", given - self.weighted @ theta, self.weighted)
            gradient = np.einsum("m,mk,mkd->d", share, gain, self.contexts)
            moved += len(self.weighted) * score @ inverse @ gradient
        return moved

    def _users(self, fit: tuple[Floats, Floats, Floats]) -> Browsing:
        rates = (np.maximum(self.contexts @ theta, 0.0) for theta in fit[1:])
        gamma, worth = (np.where(self.policy.items != BEYOND_END, rate, 0.0) for rate in rates)
        return Browsing(gamma, self.table, worth, self.metric)


def _with_constant(x: Floats) -> Floats:
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1) if x.ndim else x


def _numbers(logged: Ints, shown: Ints) -> tuple[Ints, Ints]:
    names, number = np.unique(logged, return_inverse=True)
    if not np.isin(names, shown).all():
        raise ValueError("the policy must have a list for each logged context")
    return number, context_numbers(names, shown)
