"""Who plays: the paper's five, and beside them a twin that samples, one that learns its table, and an oracle."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.bandits import Bandit, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, UbmLinUcb, exploration, safe_weight_bound
from learner.experiments.arena import OnlinePolicy, Scores, Visits
from learner.samples import Samples

Floats = NDArray[np.float64]

ALPHAS: tuple[float | None, ...] = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, None)
"""Every algorithm is tried with these widths and plays with its best; None is the theorem's rule."""

PAPER = ("c2ucb", "pbm-ucb", "cm-linucb", "dcm-linucb", "ubm-linucb")
BEYOND = ("ubm-thompson", "ubm-online-table")
BOUNDS = ("random", "oracle")  # what lies below and above all that learn

SWEEPS = 3  # of the alternation per lesson; it starts where the last one ended
TRUST = 100.0  # rows of evidence that the starting guess of a cell counts for
LIMITS = (0.01, 3.0)  # of w relative to w[1, 0]: a cell that few reached must not run away


@dataclass(frozen=True, slots=True)
class Ucb(OnlinePolicy):
    """A bandit as it stands; all lists of a batch are ranked in one call."""

    model: Bandit

    def scores(self, visits: Visits, random: np.random.Generator) -> Scores:
        """Return the model's own order of all candidates together, the first one largest."""
        n, m, d = visits.contexts.shape
        order = self.model.rank(visits.contexts.reshape(n * m, d), size=n * m, items=visits.items.reshape(n * m))
        ranks = np.empty(n * m, dtype=np.int64)
        ranks[order] = np.arange(n * m)
        return -ranks.reshape(n, m)

    def learn(self, samples: Samples) -> None:
        """Learn from what was shown."""
        self.model.learn(samples)


@dataclass(frozen=True, slots=True)
class Thompson(Ucb):
    """UBM-LinUCB's sums, but each list is ranked by a θ drawn from N(θ, α² A⁻¹)."""

    model: UbmLinUcb

    def scores(self, visits: Visits, random: np.random.Generator) -> Scores:
        """Return each list's estimates under a θ of its own."""
        noise = random.normal(size=(self.model.dim, len(visits)))
        factor = np.linalg.cholesky(self.model.gram)  # A = L Lᵀ, so L⁻ᵀ ε has covariance A⁻¹
        drawn = self.model.theta[:, None] + self.model.alpha * np.linalg.solve(factor.T, noise)
        return np.asarray(np.matmul(visits.contexts, drawn.T[:, :, None])[..., 0])


class OnlineTable(OnlinePolicy):
    """UBM-LinUCB without a table: it starts from w = 1/√k, and learns both θ and w from its own clicks.

    The sums Σ x xᵀ and Σ r x are kept for each cell (k, k′) apart, so A and b can be had for any table. Given θ, the
    best w of a cell is Σ r θᵀx / Σ (θᵀx)²; given w, θ = A⁻¹ b: alternating least squares, from sums alone. Clicks tell
    w only up to a factor, which is fixed by w[1, 0] = 1.
    """

    def __init__(self, dim: int, *, positions: int, alpha: float | None) -> None:
        self.dim, self.positions, self.fixed_alpha = dim, positions, alpha
        self.rounds = 0
        cells = positions * positions
        self._grams = np.zeros((cells, dim, dim))
        self._responses = np.zeros((cells, dim))
        depth = np.arange(1, positions + 1)
        self._guess = np.tril(np.broadcast_to(depth[:, None] ** -0.5, (positions, positions))).ravel()
        self._seen = self._guess.copy()  # w, flat
        self._factor: Floats = np.eye(dim)
        self.theta: Floats = np.zeros(dim)
        self._solve()

    @property
    def examination(self) -> Floats:
        """w[k − 1, k′] as learned so far, w[1, 0] being 1."""
        return self._seen.reshape(self.positions, self.positions)

    @property
    def ridge(self) -> float:
        """λ, as UBM-LinUCB would have it with this table."""
        return max(1.0, safe_weight_bound(self.examination))

    @property
    def alpha(self) -> float:
        """α of the next round."""
        if self.fixed_alpha is not None:
            return self.fixed_alpha
        return exploration(
            self.rounds + 1,
            dim=self.dim,
            positions=self.positions,
            phi=safe_weight_bound(self.examination),
            ridge=self.ridge,
            beta=self.dim,
        )

    def scores(self, visits: Visits, random: np.random.Generator) -> Floats:
        """Return θᵀx + α√(xᵀA⁻¹x)."""
        n, m, d = visits.contexts.shape
        flat = visits.contexts.reshape(n * m, d).astype(np.float64)
        white = np.linalg.solve(self._factor, flat.T)
        scores = flat @ self.theta + self.alpha * np.sqrt(np.einsum("ij,ij->j", white, white))
        return np.asarray(scores.reshape(n, m))

    def learn(self, samples: Samples) -> None:
        """Add every row to its cell's sums, then improve w and θ in turn."""
        cell = (samples.position - 1) * self.positions + samples.last_click
        order = np.argsort(cell, kind="stable")
        cells, starts = np.unique(cell[order], return_index=True)
        context = samples.context[order].astype(np.float64)
        weighted = context * samples.reward[order][:, None]
        for which, rows in zip(cells, np.split(np.arange(len(order)), starts[1:]), strict=True):
            part = context[rows[0] : rows[-1] + 1]
            self._grams[which] += part.T @ part
            self._responses[which] += weighted[rows[0] : rows[-1] + 1].sum(axis=0)
        self.rounds += len(samples)
        for _ in range(SWEEPS):
            self._weigh()
            self._solve()

    def _weigh(self) -> None:
        """Set w to what fits the clicks best, with the guess as prior evidence."""
        expected: Floats = np.asarray(self._grams @ self.theta @ self.theta)  # Σ (θᵀx)²
        clicked: Floats = np.asarray(self._responses @ self.theta)  # Σ r θᵀx
        shown = max(float(np.trace(self._grams, axis1=1, axis2=2).sum()), 1e-12)
        trust = TRUST * float(expected.sum()) / shown  # as much as TRUST average rows weigh
        if trust == 0.0:
            return
        # the factor between the guess and what the clicks say over all cells
        scale = float(self._guess @ clicked) / max(float(self._guess**2 @ expected), 1e-12)
        raw: Floats = (clicked + trust * self._guess * scale) / (expected + trust)
        self._seen = np.where(self._guess > 0, np.clip(raw / max(float(raw[0]), 1e-12), *LIMITS), 0.0)

    def _solve(self) -> None:
        gram = np.tensordot(self._seen**2, self._grams, axes=1) + self.ridge * np.eye(self.dim)
        response = self._seen @ self._responses
        self._factor = np.asarray(np.linalg.cholesky(gram))
        self.theta = np.asarray(np.linalg.solve(gram, response))


class Oracle(OnlinePolicy):
    """Knows θ*, so it has nothing to learn: what is left to gain."""

    def scores(self, visits: Visits, random: np.random.Generator) -> Floats:
        """Return the true attractiveness."""
        return visits.attractiveness


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known before the first round, from a log: w by position and last click, and by position alone."""

    table: Floats  # (K, K), by UBM
    positions: Floats  # (K,), by PBM

    def cut(self, size: int) -> "Knowledge":
        """Return what concerns lists of ``size``."""
        return Knowledge(self.table[:size, :size], self.positions[:size])


class Entry(NamedTuple):
    """A policy that takes part, with its α (None: the theorem's rule, or no α at all)."""

    name: str
    alpha: float | None = None


def entered(
    entries: Iterable[Entry], *, dim: int, known: Knowledge, reward_scale: float = 1.0
) -> dict[Entry, OnlinePolicy]:
    """Return a fresh policy for every entry."""
    size, scale = len(known.table), reward_scale

    def ubm(alpha: float | None) -> UbmLinUcb:
        return UbmLinUcb(dim, examination=known.table, alpha=alpha, ridge="safe", reward_scale=scale)

    make: dict[str, Callable[[float | None], OnlinePolicy]] = {
        "c2ucb": lambda alpha: Ucb(C2Ucb(dim, positions=size, alpha=alpha, reward_scale=scale)),
        "pbm-ucb": lambda alpha: Ucb(PbmUcb(examination=known.positions, alpha=alpha, reward_scale=scale)),
        "cm-linucb": lambda alpha: Ucb(CmLinUcb(dim, positions=size, alpha=alpha, reward_scale=scale)),
        "dcm-linucb": lambda alpha: Ucb(DcmLinUcb(dim, positions=size, alpha=alpha, reward_scale=scale)),
        "ubm-linucb": lambda alpha: Ucb(ubm(alpha)),
        "ubm-thompson": lambda alpha: Thompson(ubm(alpha)),
        "ubm-online-table": lambda alpha: OnlineTable(dim, positions=size, alpha=alpha),
        "random": lambda alpha: OnlinePolicy(),
        "oracle": lambda alpha: Oracle(),
    }
    return {entry: make[entry.name](entry.alpha) for entry in entries}
