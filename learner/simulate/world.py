"""A pool of items and the users they are shown to, who come by one or many at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.browsing import checked_table
from learner.simulate.users import Users

Floats = NDArray[np.float64]


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
