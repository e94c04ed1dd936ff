"""Day one: what each learner makes of the log of an old ranker, and what its θ then earns.

An old ranker orders candidates by a taste of its own, so that positions confound its features: what it likes is seen,
and what is seen is clicked. Its log is learned from off-line, as a replay of logged topics does, and the learned θ
serves the same users greedily. Whoever takes unseen for refused learns the old ranker's taste with the users'.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from learner.bandits import Bandit, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, UbmLinUcb
from learner.click_models import PBM, UBM
from learner.evaluate import LoggedLists, Policy, ubm_ips
from learner.experiments.arena import pick
from learner.experiments.shop import shop_table
from learner.experiments.summary import Mean
from learner.samples import Samples
from learner.simulate import World, unit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DIM, ITEMS, CANDIDATES = 10, 500, 40
PART = 2000  # lists made at once
WRONG_NOISE, WRONG_FACTOR = 0.5, 0.3
DRIFT = 0.5  # of the taste that was another one when the log began

Browsers = Literal["ubm", "pbm", "cm", "dcm"]
OTHER_USERS: tuple[Browsers, ...] = ("pbm", "cm", "dcm")
LEARNERS = ("c2ucb", "pbm-ucb", "cm-linucb", "dcm-linucb", "ubm, w known", "ubm, w fitted")


def steep(power: float, positions: int = 12) -> Floats:
    """Return w = 0.95/k^power, whatever was clicked above."""
    depth = np.arange(1, positions + 1)[:, None]
    return np.asarray(np.tril(np.broadcast_to(0.95 * depth**-power, (positions, positions))))


TABLES: Mapping[str, Callable[[], Floats]] = {
    "Taobao-shaped": shop_table,
    "0.95/k": lambda: steep(1.0),
    "0.95/√k": lambda: steep(0.5),
}


@dataclass(frozen=True, slots=True)
class DayOne:
    """One old ranker, its users and its log."""

    table: str = "Taobao-shaped"
    likeness: float = 0.0  # the cosine of the old ranker's taste and the users'
    noise: float = 0.0  # Gumbel noise on the old ranker's scores, which lie within ±1
    mean: float = 0.06  # of γ; it goes from about 0 to twice that
    size: int = 12
    lists: int = 20_000
    served: int = 4000  # lists that a learned θ is judged on, the same for all
    users: Browsers = "ubm"
    constant: bool = True  # whether a context has a constant feature
    personal: float = 0.0  # how much of a user's own, shared by all candidates of a visit, is in their features
    drifting: bool = False  # whether taste was another one, half of it, when the log began

    def play(self, seed: int, *, wrong: bool = False) -> dict[str, ServedLists]:
        """Return what each learner earns per list after learning from the old ranker's log."""
        random = np.random.default_rng([seed, 0])
        world = self._world(random)
        users, examination = world.users, world.users.examination
        taste = unit(users.taste[1:])
        away = random.normal(size=DIM - 1)
        away = unit(away - (away @ taste) * taste)
        old = self.likeness * taste + np.sqrt(1 - self.likeness**2) * away
        log = self._log(world, old, np.random.default_rng([seed, 1]), self.lists)
        later = replace(self, drifting=False)._log(world, old, np.random.default_rng([seed, 4]), self.served)
        items, contexts = world.visits(np.random.default_rng([seed, 2]), self.served)
        models = self.taught(log, examination, seed, wrong=wrong)

        def outcome(scores: Floats, near: float, judged: float = np.nan) -> ServedLists:
            shown = pick(np.argsort(-scores, axis=1, kind="stable")[:, : self.size], contexts)
            clicks, clicked = users.expected_clicks(shown).mean(), users.expected_reward(shown).mean()
            return ServedLists(float(clicks), float(clicked), near, judged)

        served = {}
        for name, model in models.items():
            theta = None if isinstance(model, PbmUcb) else model.theta[1:] if self.constant else model.theta
            near = np.nan if theta is None or not theta.any() else float(unit(theta) @ taste)
            scores = _scores(model, items, contexts if self.constant else contexts[..., 1:])
            served[name] = outcome(scores, near, judged_by_log(model, later, examination))
        served["oracle"] = outcome(contexts[..., 1:] @ taste, 1.0)
        served["old ranker"] = outcome(contexts[..., 1:] @ old, self.likeness)
        return served

    def _world(self, random: np.random.Generator) -> World:
        table, stays = TABLES[self.table]()[: self.size, : self.size], None
        if self.users == "pbm":
            table = np.tril(np.broadcast_to(table[:, :1], table.shape))
        elif self.users == "cm":
            table = np.eye(1, self.size)[[0] * self.size]
        elif self.users == "dcm":
            table, stays = np.tri(self.size), np.linspace(0.7, 0.3, self.size)
        return World.random(
            random,
            dim=DIM,
            examination=table,
            continuation=stays,
            items=ITEMS,
            candidates=CANDIDATES,
            mean=self.mean,
            spread=0.95 * min(self.mean, 1 - self.mean),
            personal=self.personal,
        )

    def _log(self, world: World, old: Floats, random: np.random.Generator, lists: int) -> OldLog:
        parts = []
        taste = world.users.taste
        other = np.concatenate([taste[:1], np.roll(taste[1:], 1)])
        for start in range(0, lists, PART):
            items, contexts = world.visits(random, min(PART, lists - start))
            past = DRIFT * (1 - start / lists) if self.drifting else 0.0
            users = replace(world.users, taste=(1 - past) * taste + past * other)
            scores = np.sqrt(2) * (contexts[..., 1:] @ old)
            if self.noise:
                scores = scores + random.gumbel(scale=self.noise, size=scores.shape)
            rows = np.argsort(-scores, axis=1)[:, : self.size]
            shown = pick(rows, contexts)
            clicks = users.browse(shown, random)
            parts.append((pick(rows, items), shown if self.constant else shown[..., 1:], clicks))
        return OldLog(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def taught(self, log: OldLog, examination: Floats, seed: int, *, wrong: bool) -> dict[str, Bandit]:
        """Return the learners that have learned from the log."""
        dim, size = log.contexts.shape[2], self.size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of cells that no list reached, and of the theorem
            fitted = UBM(prior="empirical").fit(log.items, log.clicks).examination
            positions = PBM(prior="empirical").fit(log.items, log.clicks).examination

            def weighted(table: Floats) -> UbmLinUcb:
                return UbmLinUcb(dim, examination=table, alpha=0.0)

            models: dict[str, Bandit] = {
                "c2ucb": C2Ucb(dim, positions=size, alpha=0.0),
                "pbm-ucb": PbmUcb(examination=positions / positions.max(), alpha=0.0),
                "cm-linucb": CmLinUcb(dim, positions=size, alpha=0.0),
                "dcm-linucb": DcmLinUcb(dim, positions=size, alpha=0.0),
                "ubm, w known": weighted(examination),
                "ubm, w fitted": weighted(np.minimum(fitted / fitted[0, 0], 1.0)),
            }
            if wrong:
                noise = np.exp(WRONG_NOISE * np.random.default_rng([seed, 3]).normal(size=examination.shape))
                models["ubm, w with noise"] = weighted(np.minimum(examination * noise, 1.0))
                models["ubm, w times 0.3"] = weighted(WRONG_FACTOR * examination)
        samples = Samples.from_clicks(log.contexts, log.clicks, log.items)
        for model in models.values():
            model.learn(samples)
        return models


@dataclass(frozen=True, slots=True)
class OldLog:
    """The lists that the old ranker showed, and what was clicked."""

    items: Ints  # (n, K)
    contexts: Floats  # (n, K, d)
    clicks: Floats  # (n, K)


@dataclass(frozen=True, slots=True)
class ServedLists:
    """What a learner's lists earn."""

    ctr_sum: float
    ctr_set: float
    likeness: float  # cosine of its taste and the users', the constant left out; NaN for one without a θ
    judged: float  # CTR_sum by UBM-IPS on the old log's records, each reordered; NaN for those who need no log


def judged_by_log(model: Bandit, log: OldLog, examination: Floats) -> float:
    """Return what UBM-IPS says when a model reorders each record of a log, as the paper judges."""
    rows = np.argsort(-_scores(model, log.items, log.contexts), axis=1, kind="stable")
    own = np.arange(len(log.items))
    logged = LoggedLists.of(log.items, log.clicks, own)
    return ubm_ips(logged, Policy.of(pick(rows, log.items), own), examination=examination).value


def _scores(model: Bandit, items: Ints, contexts: Floats) -> Floats:
    n, m, d = contexts.shape
    return model.predict(contexts.reshape(n * m, d), items=items.reshape(n * m)).reshape(n, m)


@dataclass(frozen=True, slots=True)
class LearnerStanding:
    """How a learner stands to C²UCB over all seeds."""

    ctr_sum: Mean  # lifts, as shares
    ctr_set: Mean
    judged: Mean  # the lift of CTR_sum that UBM-IPS sees on a later log of the old ranker
    likeness: float


def standings(played: Sequence[Mapping[str, ServedLists]]) -> dict[str, LearnerStanding]:
    """Return each learner's lift over C²UCB, seed by seed the same users and the same luck."""

    def lift(name: str, what: str) -> Mean:
        return Mean.of([getattr(each[name], what) / getattr(each["c2ucb"], what) - 1 for each in played])

    return {
        name: LearnerStanding(
            lift(name, "ctr_sum"),
            lift(name, "ctr_set"),
            lift(name, "judged"),
            float(np.mean([each[name].likeness for each in played])),
        )
        for name in played[0]
    }


def cases() -> dict[tuple[str, str], DayOne]:
    """Return the rows of the experiment, by the block that a row stands in and its name there."""
    tables = ("Taobao-shaped", "0.95/k")
    rankers = {"opposed (cos −0.5)": -0.5, "orthogonal": 0.0, "half right (cos 0.5)": 0.5, "good (cos 0.9)": 0.9}
    rows = {
        (f"w {table}, γ about 0.06", name): DayOne(table=table, likeness=likeness)
        for table in tables
        for name, likeness in rankers.items()
    }
    rows["w Taobao-shaped, γ about 0.3", "orthogonal"] = DayOne(mean=0.3)
    for noise, table in product((0.1, 0.3, 1.0), tables):
        rows["a random old ranker", f"w {table}, noise {noise:g}"] = DayOne(table=table, noise=noise)
    for size in (3, 6, 9, 12):
        rows["lists of K", f"K = {size}"] = DayOne(table="0.95/k", size=size)
    for lists in (1000, 5000, 20_000):
        rows["a log of n lists", f"n = {lists:,}"] = DayOne(lists=lists)
    rows["features", "without a constant"] = DayOne(constant=False)
    for users in OTHER_USERS:
        rows["clicks by other models", f"{users.upper()} users"] = DayOne(users=users)
    for table in tables:
        rows["a drifting taste", f"w {table}"] = DayOne(table=table, drifting=True)
    for personal, table in product((0.35, 0.7, 1.0), tables):
        name = f"w {table}, the user's part {personal:g} of the item's"
        rows["features that tell of the user too", name] = DayOne(table=table, personal=personal)
    return rows
