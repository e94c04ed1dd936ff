"""Who plays: the paper's five, and beside them a twin that samples, one that learns its table, and an oracle."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from learner.bandits import Bandit, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, UbmLinUcb
from learner.experiments.online_table import OnlineTable
from learner.experiments.visits import Visits
from learner.samples import Samples

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

ALPHAS: tuple[float | None, ...] = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, None)
"""Every algorithm is tried with these widths and plays with its best; None is the theorem's rule."""

PAPER = ("c2ucb", "pbm-ucb", "cm-linucb", "dcm-linucb", "ubm-linucb")
BEYOND = ("ubm-thompson", "ubm-online-table")
BOUNDS = ("random", "oracle")  # what lies below and above all that learn


class OnlinePolicy(Protocol):
    """What ranks for many visits at once and learns from their answers."""

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return the rows (n, size) of the candidates to show, best first."""

    def learn(self, samples: Samples) -> None:
        """Learn from what was shown."""


@dataclass(frozen=True, slots=True)
class Ucb:
    """A bandit as it stands; all lists of a batch are ranked in one call."""

    model: Bandit

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return each list's best rows, in the model's own order of all candidates together."""
        n, m, d = visits.contexts.shape
        order = self.model.rank(visits.contexts.reshape(n * m, d), size=n * m, items=visits.items.reshape(n * m))
        place = np.empty(n * m, dtype=np.int64)
        place[order] = np.arange(n * m)
        return best(-place.reshape(n, m), size)

    def learn(self, samples: Samples) -> None:
        """Learn from what was shown."""
        self.model.learn(samples)


@dataclass(frozen=True, slots=True)
class Thompson:
    """UBM-LinUCB's sums, but each list is ranked by a θ drawn from N(θ, α² A⁻¹)."""

    model: UbmLinUcb

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return each list's best rows under a θ of its own."""
        noise = random.normal(size=(self.model.dim, len(visits)))
        factor = np.linalg.cholesky(self.model.gram)  # A = L Lᵀ, so L⁻ᵀ ε has covariance A⁻¹
        drawn = self.model.theta[:, None] + self.model.alpha * np.linalg.solve(factor.T, noise)
        return best(np.matmul(visits.contexts, drawn.T[:, :, None])[..., 0], size)

    def learn(self, samples: Samples) -> None:
        """Learn from what was shown."""
        self.model.learn(samples)


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows θ*, so it has nothing to learn: what is left to gain."""

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return the most attractive rows."""
        return best(visits.attractiveness, size)

    def learn(self, samples: Samples) -> None:
        """Learn nothing."""


@dataclass(frozen=True, slots=True)
class Random:
    """Shows anything, in any order: what there is without learning."""

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return random rows."""
        return best(random.random(visits.items.shape), size)

    def learn(self, samples: Samples) -> None:
        """Learn nothing."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known before the first round, from a log: w by position and last click, and by position alone."""

    table: Floats  # (K, K), by UBM
    positions: Floats  # (K,), by PBM

    def cut(self, size: int) -> "Knowledge":
        """Return what concerns lists of ``size``."""
        return Knowledge(self.table[:size, :size], self.positions[:size])


def makers(dim: int, known: Knowledge, reward_scale: float = 1.0) -> dict[str, Callable[[float | None], OnlinePolicy]]:
    """Return, per name, what makes the policy with a given α."""
    size, table = len(known.table), known.table

    def ubm(alpha: float | None) -> UbmLinUcb:
        return UbmLinUcb(dim, examination=table, alpha=alpha, ridge="safe", reward_scale=reward_scale)

    return {
        "c2ucb": lambda alpha: Ucb(C2Ucb(dim, positions=size, alpha=alpha, reward_scale=reward_scale)),
        "pbm-ucb": lambda alpha: Ucb(PbmUcb(examination=known.positions, alpha=alpha, reward_scale=reward_scale)),
        "cm-linucb": lambda alpha: Ucb(CmLinUcb(dim, positions=size, alpha=alpha, reward_scale=reward_scale)),
        "dcm-linucb": lambda alpha: Ucb(DcmLinUcb(dim, positions=size, alpha=alpha, reward_scale=reward_scale)),
        "ubm-linucb": lambda alpha: Ucb(ubm(alpha)),
        "ubm-thompson": lambda alpha: Thompson(ubm(alpha)),
        "ubm-online-table": lambda alpha: OnlineTable(dim, positions=size, alpha=alpha),
        "random": lambda alpha: Random(),
        "oracle": lambda alpha: Oracle(),
    }


def best(scores: NDArray[np.floating] | NDArray[np.int64], size: int) -> Rows:
    """Return the columns of the ``size`` largest scores of each row, best first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :size]


class Entry(NamedTuple):
    """A policy that takes part, with its α (None: the theorem's rule, or no α at all)."""

    name: str
    alpha: float | None = None


def entered(
    entries: Iterable[Entry], *, dim: int, known: Knowledge, reward_scale: float = 1.0
) -> dict[Entry, OnlinePolicy]:
    """Return a fresh policy for every entry."""
    make = makers(dim, known, reward_scale)
    return {entry: make[entry.name](entry.alpha) for entry in entries}
