"""How often the intervals of offline estimates hold the truth, by lists per context and by what a click is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from learner.evaluate import Browsing, Estimate, Guess, Interval, LoggedLists, Policy, ips, ubm_dr, ubm_ips
from learner.evaluate.estimate import Metric
from learner.simulate import answer, browsing_table

Floats = NDArray[np.float64]

POSITIONS, ITEMS = 3, 6
ROWS = (1, 3, 10, 50, 500)  # lists per context, on average
LISTS = 500  # of a log; contexts share them
REWARDS: Mapping[str, tuple[float, ...]] = {
    "0.1": (0.1,) * 6,
    "1": (1.0,) * 6,
    "5": (5.0,) * 6,
    "mixed": (0.1, 1.0, 5.0, 0.5, 2.0, 0.2),
}
LIKELY = 10  # lists that the new policy draws from in each context
DRAWS = 100  # of the bootstrap
SPARSE, SLOW = 10, 20  # with so few lists per context, what is slow is measured on one log in so many: all of it warns


@dataclass(frozen=True, slots=True)
class Measured:
    """One estimator: its bias, how often its interval held the truth, and how often it warned."""

    bias: float  # as a share of the truth
    bias_error: float  # its standard error
    covered: float
    warned: float
    trusted: float  # how often it held the truth when it did not warn; NaN if it always did
    replications: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """All estimators with one number of lists per context and one kind of reward."""

    lists: int
    reward: str
    estimators: Mapping[str, Measured]

    @classmethod
    def measured(cls, lists: int, reward: str, replications: int) -> Coverage:
        """Return what ``replications`` logs say."""
        world = KnownWorld.of(max(LISTS // lists, 1), REWARDS[reward])
        random = np.random.default_rng([lists, sorted(REWARDS).index(reward)])
        truths: dict[Metric, float] = {"sum": world.truth("sum"), "set": world.truth("set")}
        told: dict[str, list[tuple[float, bool, bool]]] = {}
        for replication in range(replications):
            log = world.log(random)
            estimates = world.estimates(log, slow=lists > SPARSE or replication % SLOW == 0)
            for name, estimate in estimates.items():
                truth = truths[estimate.metric]
                inside = estimate.low <= truth <= estimate.high
                told.setdefault(name, []).append((estimate.value / truth - 1, inside, bool(estimate.warnings)))
        return cls(lists, reward, {name: _summed(rows) for name, rows in told.items()})


def _summed(rows: list[tuple[float, bool, bool]]) -> Measured:
    off, inside, warned = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    error = float(off.std(ddof=1) / np.sqrt(len(off))) if len(off) > 1 else float("nan")
    trusted = float(inside[warned == 0].mean()) if (warned == 0).any() else float("nan")
    return Measured(float(off.mean()), error, float(inside.mean()), float(warned.mean()), trusted, len(off))


@dataclass(frozen=True, slots=True)
class KnownWorld:
    """Contexts with a taste each, an old policy that likes the wrong items, and a new one to be judged."""

    gamma: Floats  # (contexts, items)
    worth: Floats  # (items,) of a click
    table: Floats
    chances: Floats  # (contexts, lists) of the old policy
    logging: Policy
    target: Policy

    @classmethod
    def of(cls, contexts: int, worth: tuple[float, ...]) -> KnownWorld:
        """Return the world with so many contexts."""
        lists = np.array(list(permutations(range(ITEMS), POSITIONS)))
        gamma = np.random.default_rng(0).uniform(0.05, 0.7, (contexts, ITEMS))
        old = _one_by_one(lists, np.tile(0.16 * np.arange(ITEMS), (contexts, 1)))
        new = _one_by_one(lists, 3 * gamma)
        likely = np.argsort(-new, axis=1)[:, :LIKELY]
        chosen = np.take_along_axis(new, likely, axis=1)
        chosen /= chosen.sum(axis=1, keepdims=True)
        target = Policy.of(lists[likely.ravel()], np.repeat(np.arange(contexts), LIKELY), chosen.ravel())
        logging = Policy.of(np.tile(lists, (contexts, 1)), np.repeat(np.arange(contexts), len(lists)), old.ravel())
        return cls(gamma, np.array(worth), browsing_table(POSITIONS), old, logging, target)

    def truth(self, metric: Metric) -> float:
        """Return what the new policy earns per list, or the share of its lists with a click."""
        gamma = self.gamma[self.target.contexts[:, None], self.target.items]
        users = Browsing(gamma, self.table, gamma * self.worth[self.target.items] if metric == "sum" else None, metric)
        return float(self.target.chances @ users.rewards.sum(axis=1) / len(self.gamma))

    def log(self, random: np.random.Generator) -> LoggedLists:
        """Return lists of the old policy, each in a random context."""
        context = random.integers(len(self.gamma), size=LISTS)
        drawn = (random.random(LISTS)[:, None] > np.cumsum(self.chances, axis=1)[context]).sum(axis=1)
        per_context = self.chances.shape[1]
        shown = self.logging.items[:per_context][np.minimum(drawn, per_context - 1)]
        clicks = answer(self.gamma[context[:, None], shown], self.table, random).clicks
        return LoggedLists.of(shown, clicks * self.worth[shown], context)

    def estimates(self, log: LoggedLists, *, slow: bool) -> dict[str, Estimate]:
        """Return what the estimators say of a log."""
        guess = Guess.from_log(log, self.table)
        ubm = partial(ubm_ips, log, self.target, examination=self.table)
        made = {
            "UBM-IPS": ubm(),
            "UBM-IPS, CTR_set": ubm(metric="set"),
            "UBM-DR": ubm_dr(log, self.target, guess=guess, examination=self.table),
        }
        if slow:
            made["UBM-IPS, bootstrap"] = ubm(interval=Interval(draws=DRAWS))
            made["lists, π known"] = ips(log, self.target, logging=self.logging)
            made["prefixes, π known"] = ips(log, self.target, over="prefixes", logging=self.logging)
        return made


def _one_by_one(lists: NDArray[np.int64], scores: Floats) -> Floats:
    """Return the chance of each list in each context when items are drawn by e^score of those that are left."""
    appeal = np.exp(scores)
    chances = np.ones((len(scores), len(lists)))
    left = np.repeat(appeal.sum(axis=1)[:, None], len(lists), axis=1)
    for k in range(lists.shape[1]):
        here = appeal[:, lists[:, k]]
        chances *= here / left
        left = left - here
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))
