"""UBM-LinUCB without a table: the taste θ and the examination w, both learned online.

The sums Σ x xᵀ and Σ r x are kept for each cell (k, k′) apart, so A and b can be had for any table. Given θ, the best w
of a cell is Σ r θᵀx / Σ (θᵀx)²; given w, θ = A⁻¹ b: alternating least squares, from sums alone. Clicks tell w only up
to a factor, which is fixed by w[1, 0] = 1.
"""

import numpy as np
from numpy.typing import NDArray

from learner.bandits import exploration, safe_weight_bound
from learner.experiments.visits import Visits
from learner.samples import Samples

Floats = NDArray[np.float64]

SWEEPS = 3  # of the alternation per lesson; it starts where the last one ended
TRUST = 100.0  # rows of evidence that the starting guess of a cell counts for
LIMITS = (0.01, 3.0)  # of w relative to w[1, 0]: a cell that few reached must not run away


class OnlineTable:
    """A linear bandit of K positions that starts from w = 1/√k and learns the table from its own clicks."""

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

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return each list's rows with the largest θᵀx + α√(xᵀA⁻¹x)."""
        n, m, d = visits.contexts.shape
        flat = visits.contexts.reshape(n * m, d).astype(np.float64)
        white = np.linalg.solve(self._factor, flat.T)
        scores = flat @ self.theta + self.alpha * np.sqrt(np.einsum("ij,ij->j", white, white))
        return np.argsort(-scores.reshape(n, m), axis=1, kind="stable")[:, :size]

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
        raw: Floats = (clicked + trust * self._guess * self._scale(clicked, expected)) / (expected + trust)
        self._seen = np.where(self._guess > 0, np.clip(raw / max(float(raw[0]), 1e-12), *LIMITS), 0.0)

    def _scale(self, clicked: Floats, expected: Floats) -> float:
        """Return the factor between the guess and what the clicks say over all cells."""
        return float(self._guess @ clicked) / max(float(self._guess**2 @ expected), 1e-12)

    def _solve(self) -> None:
        gram = np.tensordot(self._seen**2, self._grams, axes=1) + self.ridge * np.eye(self.dim)
        response = self._seen @ self._responses
        self._factor = np.asarray(np.linalg.cholesky(gram))
        self.theta = np.asarray(np.linalg.solve(gram, response))
