"""Users with a known taste: a bandit in, its clicks and its regret out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.bandit import Bandit
from learner.browsing import checked_table
from learner.samples import Samples

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Users:
    """Users who examine position k with chance w[k, k′] and click what they examined with chance γ = θ*ᵀx.

    Parameters
    ----------
    taste
        θ*, such that θ*ᵀx is a chance for every context x that is shown.
    examination
        w[k − 1, k′], K×K.
    """

    taste: Floats
    examination: Floats

    def attractiveness(self, contexts: Floats) -> Floats:
        """Return γ = θ*ᵀx."""
        return np.asarray(contexts @ self.taste)

    def browse(self, contexts: Floats, random: np.random.Generator) -> Floats:
        """Return the clicks (lists, K) of users who were shown ``contexts`` (lists, K, d)."""
        gamma = self.attractiveness(contexts)
        draws = random.random(gamma.shape)
        clicks = np.zeros(gamma.shape)
        last = np.zeros(len(gamma), dtype=np.int64)
        for k in range(gamma.shape[1]):  # each position depends on the click before it, in all lists at once
            clicked = draws[:, k] < self.examination[k, last] * gamma[:, k]
            clicks[:, k] = clicked
            last[clicked] = k + 1
        return clicks

    def expected_reward(self, contexts: Floats) -> Floats:
        """Return E[F(S)] = 1 − Πₖ(1 − w[k, 0] γₖ), the chance that a list (…, K, d) gets any click."""
        gamma = self.attractiveness(contexts)
        return np.asarray(1.0 - np.prod(1.0 - self.examination[: gamma.shape[-1], 0] * gamma, axis=-1))

    def best_rows(self, candidates: Floats, size: int) -> NDArray[np.int64]:
        """Return the rows of the list with the largest expected reward: the largest γ where w[k, 0] is largest."""
        by_taste = np.argsort(-self.attractiveness(candidates), kind="stable")[:size]
        rows = np.empty_like(by_taste)
        rows[np.argsort(-self.examination[: len(by_taste), 0], kind="stable")] = by_taste
        return rows


@dataclass(frozen=True, slots=True)
class World:
    """Items and the users they are shown to; a context tells of the item and of the user.

    A context is (1, u)/√2 with u the unit vector between the item's and the user's, and θ* = √2 (mean, spread · v), so
    that γ = mean + spread · vᵀu is linear, has the stated mean, and always is a chance.
    """

    items: Floats
    users: Users
    personal: float
    candidates: int

    @classmethod
    def random(
        cls,
        random: np.random.Generator,
        *,
        dim: int = 10,
        examination: Floats,
        items: int = 1000,
        candidates: int = 100,
        mean: float = 0.15,
        spread: float = 0.14,
        personal: float = 0.7,
    ) -> "World":
        """Return a world with a random taste; ``personal`` is how much a user's own vector counts beside the item's."""
        if not 0 < spread <= min(mean, 1 - mean):
            raise ValueError(f"mean ± spread must stay between 0 and 1, got {mean} ± {spread}")
        taste = np.sqrt(2) * np.concatenate(([mean], spread * unit(random.normal(size=(dim - 1,)))))
        users = Users(taste, checked_table(examination))
        return cls(unit(random.normal(size=(items, dim - 1))), users, personal, candidates)

    def visit(self, random: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """Return the candidate items for one user who comes by, and their contexts."""
        items = random.choice(len(self.items), size=self.candidates, replace=False, shuffle=False)
        user = self.personal * unit(random.normal(size=(self.items.shape[1],)))
        mixed = unit(self.items[items] + user)
        return items, np.hstack([np.full((len(mixed), 1), np.sqrt(0.5)), np.sqrt(0.5) * mixed])


@dataclass(frozen=True, slots=True)
class Run:
    """What one bandit earned, round by round."""

    clicks: NDArray[np.int64]  # clicks in each round's list
    regret: Floats  # E[F(best list)] − E[F(shown list)] in each round

    @property
    def ctr_sum(self) -> float:
        """Clicks per list."""
        return float(self.clicks.mean())

    @property
    def ctr_set(self) -> float:
        """Share of the lists with a click."""
        return float((self.clicks > 0).mean())


def play(
    model: Bandit | None,
    world: World,
    *,
    rounds: int,
    random: np.random.Generator,
    on_round: Callable[[], object] | None = None,
) -> Run:
    """Return the run of ``model`` (None: random lists), which ranks for one user after the other and learns at once."""
    size = len(world.users.examination)
    clicks, regret = np.zeros(rounds, dtype=np.int64), np.zeros(rounds)
    for t in range(rounds):
        items, contexts = world.visit(random)
        rows = model.rank(contexts, size=size, items=items) if model else random.permutation(len(items))[:size]
        shown = contexts[rows]
        clicked = world.users.browse(shown[None], random)
        best = contexts[world.users.best_rows(contexts, size)]
        regret[t] = world.users.expected_reward(best) - world.users.expected_reward(shown)
        clicks[t] = int(clicked.sum())
        if model:
            model.learn(Samples.from_clicks(shown[None], clicked, items[rows][None]))
        if on_round:
            on_round()
    return Run(clicks, regret)


def unit(vectors: Floats) -> Floats:
    """Return ``vectors`` with length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def browsing_table(positions: int) -> Floats:
    """Return an examination table as the theorem assumes it: falling with depth, rising the closer the last click.

    >>> browsing_table(3).round(2)
    array([[0.95, 0.  , 0.  ],
           [0.55, 0.95, 0.  ],
           [0.39, 0.67, 0.95]])
    """
    distance = np.maximum(np.arange(1, positions + 1)[:, None] - np.arange(positions), 1)
    decay = np.where(np.arange(positions) > 0, 0.5, 0.8)  # without a click above, interest fades sooner
    return np.asarray(np.tril(0.95 * distance**-decay))
