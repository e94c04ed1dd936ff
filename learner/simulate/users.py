"""Simulated users with a known taste and a way of browsing, and a world of items that they are shown.

A reader of position k examines it with chance w[k, k′] and clicks what was examined with chance γ. UBM is the table as
it stands, PBM one that does not look at k′, CM one that is 0 behind a click. In DCM and SDBN a click may also end the
reading, which no later position can undo: ``continuation``, by position (K,) or by the row's item (n, K).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import checked_positions, checked_table

Floats = NDArray[np.float64]


class Answer(NamedTuple):
    """What users did with lists (n, K): 1 where they clicked, and the chance they did so after the clicks above."""

    clicks: Floats
    chance: Floats


def answer(
    attraction: Floats, examination: Floats, random: np.random.Generator, continuation: Floats | None = None
) -> Answer:
    """Return the clicks on lists whose items have these γ (n, K); a chance w·γ above 1 is a sure click."""
    lists, depth = attraction.shape
    draws = random.random(attraction.shape)
    stays = None if continuation is None else random.random(attraction.shape) < continuation[..., :depth]
    clicks, chance = np.zeros(attraction.shape), np.zeros(attraction.shape)
    last = np.zeros(lists, dtype=np.int64)
    reading = np.ones(lists, dtype=np.bool_)
    for k in range(depth):  # each position depends on the click before it, in all lists at once
        chance[:, k] = examination[k].take(last) * attraction[:, k]
        if stays is not None:
            chance[:, k] *= reading
        clicked = draws[:, k] < chance[:, k]
        clicks[:, k] = clicked
        last[clicked] = k + 1
        if stays is not None:
            reading &= ~clicked | stays[:, k]
    return Answer(clicks, chance)


def expected_clicks(attraction: Floats, examination: Floats, continuation: Floats | None = None) -> Floats:
    """Return the chance of a click at each position of lists (n, K), nothing being known of the clicks above.

    >>> expected_clicks(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0], [0.4, 0.8]]))
    array([[0.5, 0.3]])
    """
    lists, depth = attraction.shape
    click = np.empty(attraction.shape)
    readers = np.zeros((lists, depth + 1))  # P(the last click so far is at k′, and the user reads on)
    readers[:, 0] = 1.0
    for k in range(depth):
        here = readers[:, : k + 1] * (attraction[:, k, None] * examination[k, : k + 1])
        readers[:, : k + 1] -= here
        click[:, k] = here.sum(axis=1)
        readers[:, k + 1] = click[:, k] if continuation is None else click[:, k] * continuation[..., k]
    return click


@dataclass(frozen=True, slots=True)
class Users:
    """Users who examine position k with chance w[k, k′] and click what they examined with chance γ = θ*ᵀx.

    As they stand they browse by UBM; ``Users.pbm``, ``Users.cm`` and ``Users.dcm`` make those who browse otherwise.
    """

    taste: Floats  # θ*, such that θ*ᵀx is a chance for every context x that is shown
    examination: Floats  # w[k − 1, k′], K×K
    continuation: Floats | None = None  # chance to read on after a click, per position; None: as the table has it

    @classmethod
    def pbm(cls, taste: ArrayLike, examination: ArrayLike) -> "Users":
        """Return users who examine position k with chance w[k], whatever they clicked."""
        seen = checked_positions(examination)
        return cls(np.array(taste, dtype=np.float64), np.tril(np.broadcast_to(seen[:, None], (len(seen), len(seen)))))

    @classmethod
    def cm(cls, taste: ArrayLike, positions: int) -> "Users":
        """Return users who read from the top and leave after their first click."""
        table = np.zeros((positions, positions))
        table[:, 0] = 1.0
        return cls(np.array(taste, dtype=np.float64), checked_table(table))

    @classmethod
    def dcm(cls, taste: ArrayLike, continuation: ArrayLike) -> "Users":
        """Return users who read from the top and after a click at k read on with chance ``continuation[k − 1]``."""
        stay = checked_positions(continuation)
        return cls(np.array(taste, dtype=np.float64), np.tri(len(stay)), stay)

    def attractiveness(self, contexts: Floats) -> Floats:
        """Return γ = θ*ᵀx."""
        return np.asarray(contexts @ self.taste)

    def browse(self, contexts: Floats, random: np.random.Generator) -> Floats:
        """Return the clicks (lists, K) of users who were shown ``contexts`` (lists, K, d)."""
        return answer(self.attractiveness(contexts), self.examination, random, self.continuation).clicks

    def expected_reward(self, contexts: Floats) -> Floats:
        """Return E[F(S)] = 1 − Πₖ(1 − w[k, 0] γₖ), the chance that a list (…, K, d) gets any click."""
        gamma = self.attractiveness(contexts)
        return np.asarray(1.0 - np.prod(1.0 - self.examination[: gamma.shape[-1], 0] * gamma, axis=-1))

    def expected_clicks(self, contexts: Floats) -> Floats:
        """Return the expected number of clicks on each list of ``contexts`` (lists, K, d)."""
        by_position = expected_clicks(self.attractiveness(contexts), self.examination, self.continuation)
        return np.asarray(by_position.sum(axis=1))

    def best_rows(self, candidates: Floats, size: int) -> NDArray[np.int64]:
        """Return the rows of the list with the largest expected reward: the largest γ where w[k, 0] is largest."""
        by_taste = np.argsort(-self.attractiveness(candidates), kind="stable")[:size]
        rows = np.empty_like(by_taste)
        rows[np.argsort(-self.examination[: len(by_taste), 0], kind="stable")] = by_taste
        return rows


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
        continuation: Floats | None = None,
        items: int = 1000,
        candidates: int = 100,
        mean: float = 0.15,
        spread: float = 0.14,
        personal: float = 0.7,
    ) -> "World":
        """Return a world with a random taste; ``personal`` is how much a user's own vector counts beside the item's."""
        if not 0 < spread <= min(mean, 1 - mean):
            raise ValueError(f"mean ± spread must stay between 0 and 1, got {mean} ± {spread}")
        if not 1 <= len(examination) <= candidates <= items:
            raise ValueError(
                f"a list needs as many candidates as it has positions, and as many items as candidates; got "
                f"{len(examination)} positions, {candidates} candidates, {items} items"
            )
        direction = unit(random.normal(size=(dim - 1,)))
        taste = np.sqrt(2) * np.concatenate(([mean], spread * direction))
        pool = unit(random.normal(size=(items, dim - 1)))
        return cls(pool, Users(taste, checked_table(examination), continuation), personal, candidates)

    def visit(self, random: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """Return the candidate items for one user who comes by, and their contexts."""
        items = random.choice(len(self.items), size=self.candidates, replace=False, shuffle=False)
        user = self.personal * unit(random.normal(size=(self.items.shape[1],)))
        return items, self._contexts(self.items[items] + user)

    def visits(self, random: np.random.Generator, lists: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the candidate items (lists, m) of many users at once, and their contexts (lists, m, d)."""
        items = distinct(random, pool=len(self.items), lists=lists, size=self.candidates)
        users = self.personal * unit(random.normal(size=(lists, 1, self.items.shape[1])))
        return items, self._contexts(self.items[items] + users)

    def _contexts(self, mixed: Floats) -> Floats:
        contexts = np.empty((*mixed.shape[:-1], mixed.shape[-1] + 1))
        contexts[..., 0] = np.sqrt(0.5)
        contexts[..., 1:] = np.sqrt(0.5) * unit(mixed)
        return contexts


def distinct(random: np.random.Generator, *, pool: int, lists: int, size: int) -> NDArray[np.int64]:
    """Return ``size`` different numbers below ``pool`` for each list: a random start and a random stride.

    Where the numbers stand for things without an order, as items with random vectors do, this is as good as a draw
    without replacement, and a thousand lists cost one multiplication.
    """
    strides = np.arange(1, max(pool, 2))
    strides = strides[np.gcd(strides, pool) == 1]  # coprime to the pool: no number comes twice
    start = random.integers(pool, size=(lists, 1))
    return np.asarray((start + random.choice(strides, size=(lists, 1)) * np.arange(size)) % pool)


def unit(vectors: Floats) -> Floats:
    """Return ``vectors`` with length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
