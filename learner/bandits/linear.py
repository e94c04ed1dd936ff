"""A, b, θ, α and the ranking that the four linear bandits share."""

import warnings
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Bools, Floats, Ints
from learner.bandits.bandit import Bandit, Ranking, checked_count, checked_number
from learner.bandits.theorem import TheoremWarning, exploration
from learner.bandits.topk import PRUNE_ROWS, Solution, row_squares, top_rows, widths
from learner.exact import ExactSums, State, checked_cells
from learner.samples import Samples, refuse


class Scales(TypedDict, total=False):
    """Options that all linear bandits share; ``UbmLinUcb`` describes them."""

    alpha: float | None
    beta: float | None
    context_scale: float
    reward_scale: float


class LinearRanking(Ranking):
    """A linear model of attractiveness as its sums: everything but learning, so that a snapshot can rank.

    Parameters are those of ``UbmLinUcb``, ``positions`` is K, and ``phi`` φ′, what one round can add to A.
    """

    name = "linear"
    options = ("dim", "positions", "alpha", "ridge", "beta", "context_scale", "reward_scale")
    recorded = (*options, "phi", "examination")

    def __init__(
        self,
        dim: int,
        *,
        positions: int,
        phi: float,
        ridge: float | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        context_scale: float = 1.0,
        reward_scale: float = 1.0,
    ) -> None:
        super().__init__(positions=positions, reward_scale=reward_scale)
        self.dim = checked_count("dim", dim)
        self.phi = float(phi)
        self.fixed_alpha = None if alpha is None else checked_number("alpha", alpha, least=0.0)
        self.ridge = checked_number("ridge", max(1.0, self.phi) if ridge is None else ridge, above=0.0)
        self.beta = checked_number("beta", dim if beta is None else beta, least=0.0)
        self.context_scale = checked_number("context_scale", context_scale, above=0.0)
        self.sums = ExactSums(self.dim)
        self._solution: Solution | None = None

    @classmethod
    def frozen(cls, settings: Mapping[str, Any]) -> "LinearRanking":
        """Return what ranks with recorded settings: λ and φ′ are those of the table that it was learned with."""
        return LinearRanking(**{key: settings[key] for key in (*LinearRanking.options, "phi")})

    @classmethod
    def state_sizes(cls, dim: int, positions: int) -> dict[str, int | None]:
        """Return the length of each array of a state."""
        return {"rounds": 1, **ExactSums.state_sizes(dim)}

    @property
    def alpha(self) -> float:
        """α of the next round, t = rounds + 1."""
        if self.fixed_alpha is not None:
            return self.fixed_alpha
        t = max(self.rounds, 0) + 1  # a shard that only took lists back has negative rounds of its own
        return exploration(t, dim=self.dim, positions=self.positions, phi=self.phi, ridge=self.ridge, beta=self.beta)

    @property
    def gram(self) -> Floats:
        """A = λI + Σ w² x xᵀ."""
        return self._regularised()[:-1, :-1].copy()

    @property
    def response(self) -> Floats:
        """b = Σ w r x."""
        return self._regularised()[:-1, -1].copy()

    @property
    def theta(self) -> Floats:
        """θ = A⁻¹ b, solved when it is first asked for after a change."""
        return self._solved().theta

    def _regularised(self) -> Floats:
        """Return A in [:d, :d] and b in [:d, d]."""
        totals = self.sums.totals()
        totals.reshape(-1)[:: self.dim + 2] += self.ridge
        return totals

    def _solved(self) -> Solution:
        if self._solution is None:
            # Here, since a join only names models, and scipy would be a fifth of all that it loads at a restart.
            from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

            sums = self._regularised()
            # A is symmetric, so its transpose is A in LAPACK's order
            factor, info = dpotrf(sums[:-1, :-1].T, lower=1)
            if info:
                raise ArithmeticError(
                    f"A has no Cholesky factor (LAPACK says {info}): more was taken back than learned, or ridge "
                    f"{self.ridge} is too small for its size; restore a snapshot or replay the samples"
                )
            theta, _ = dpotrs(factor, sums[:-1, -1], lower=1)
            whitening, _ = dtrtri(factor, lower=1, overwrite_c=1)
            self._solution = Solution(theta, whitening)
        return self._solution

    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> Floats:
        """Return θᵀx, the estimated attractiveness of each candidate (n, d)."""
        return np.asarray(self._checked_candidates(candidates) @ self.theta)

    def widths(self, candidates: ArrayLike) -> Floats:
        """Return √(xᵀ A⁻¹ x), the uncertainty of each candidate's estimate."""
        return widths(self._checked_candidates(candidates), self._solved().whitening)

    def scores(self, candidates: ArrayLike, items: ArrayLike | None = None, *, explore: float = 1.0) -> Floats:
        """Return θᵀx + α√(xᵀA⁻¹x), the upper confidence bound of each candidate; ``explore`` is a share of α."""
        x = self._checked_candidates(candidates)
        solution = self._solved()
        return np.asarray(x @ solution.theta + self.alpha * explore * widths(x, solution.whitening))

    def rank(
        self, candidates: ArrayLike, size: int = 12, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> Ints:
        """Return the rows of the ``size`` candidates with the largest θᵀx + α√(xᵀA⁻¹x), best first, ties by row.

        ``explore`` is a share of α; with 0 the estimate alone decides.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        x = self._shaped(candidates)
        squares = None
        if len(x) > PRUNE_ROWS and self.context_scale == 1.0:
            with np.errstate(invalid="ignore", over="ignore"):
                squares = row_squares(x)
        if squares is None or not squares.max() <= 1.0 + 2.0**-40:  # else no feature exceeds 1, but for rounding
            x = self._checked_candidates(x)
        return top_rows(x, self._solved(), alpha=self.alpha * explore, size=size, squares=squares)

    def rank_mapped(self, held: Floats, mapping: Floats, *, norms: Floats, size: int, explore: float = 1.0) -> Ints:
        """Return the best rows as ``rank(held @ mapping.T)`` would, without making those contexts or checking them.

        θᵀ(Mz) is (Mᵀθ)ᵀz and W(Mz) is (WM)z, so rows z (n, p) that are held with their ``norms`` serve any M (d, p).
        """
        scaled, solved = mapping / self.context_scale, self._solved()
        mapped = Solution(scaled.T @ solved.theta, solved.whitening @ scaled)
        return top_rows(held, mapped, alpha=self.alpha * explore, size=size, norms=norms)

    def _shaped(self, candidates: ArrayLike) -> Floats:
        x = np.asarray(candidates, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"candidates must have {self.dim} columns, got shape {x.shape}")
        return x

    def _checked_candidates(self, candidates: ArrayLike) -> Floats:
        x = self._shaped(candidates)
        scale = self.context_scale
        if not (x.max(initial=0.0) <= scale and x.min(initial=0.0) >= -scale):  # false for NaN
            refuse("candidates", x, ~(np.abs(x) <= scale), f"features lie within context_scale ±{scale}")
        return x if scale == 1.0 else x / scale

    def state(self) -> State:
        """Return the sums and the rounds as integers; the same lists give the same integers in any order."""
        return {"rounds": np.array([self.rounds]), **self.sums.state()}

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over a state that a model with the same settings returned."""
        rounds = int(checked_cells(state, "rounds", 1)[0])
        self.sums.restore(state)
        self.rounds, self._solution = rounds, None


class LinearBandit(LinearRanking, Bandit):
    """A linear model that learns from the rows it chooses, each with the weight it gives them."""

    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples`` (take back those of sign −1); on bad input nothing changes."""
        self._check(samples)
        if not samples.deepest:  # no rows: the lists were shown, but nothing of them was rendered
            self.rounds += int(samples.sign.sum())
            return
        rows, weight = self._weigh(samples)
        context, reward, sign = samples.context, samples.reward, samples.row_sign()
        if rows is not None:
            context, reward, sign = context[rows], reward[rows], None if sign is None else sign[rows]
        if self.context_scale != 1.0:
            context = context / np.float64(self.context_scale)
        if self.reward_scale != 1.0:
            reward = reward / self.reward_scale
        self.sums.add(context, weight=weight, reward=reward, sign=sign)
        self.rounds += len(samples.size) if samples.all_added else int(samples.sign.sum())
        self._solution = None

    def _weigh(self, samples: Samples) -> tuple[Bools | None, Floats]:
        """Return which rows to learn from (None: all) and the weight of each of those."""
        raise TypeError(f"{type(self).__name__} does not say which rows it learns from")

    def _check(self, samples: Samples) -> None:
        if samples.context.shape[1] != self.dim and samples.rows:
            raise ValueError(f"context must have {self.dim} columns, got shape {samples.context.shape}")
        if samples.largest_context > self.context_scale:
            bad = np.abs(samples.context) > self.context_scale
            refuse("context", samples.context, bad, f"features lie within context_scale ±{self.context_scale}")
        self._check_lists(samples)


def resolved_ridge(ridge: float | str | None, phi: float, safe_phi: float) -> tuple[float, float]:
    """Return λ and φ′ of a table: as set, the paper's max(1, φ′), or ``"safe"``, which needs no order of w."""
    if isinstance(ridge, str) and ridge != "safe":
        raise ValueError(f'ridge must be a number, None for the paper\'s max(1, φ′), or "safe"; got {ridge!r}')
    if ridge == "safe":
        return max(1.0, safe_phi), safe_phi
    if safe_phi > phi * (1 + 1e-12):
        warnings.warn(
            f"w does not grow with k′: Σₖ max w² = {safe_phi:.3f} exceeds φ′ = {phi:.3f}: the theorem does not apply; "
            'ridge="safe" uses the larger sum',
            TheoremWarning,
            stacklevel=3,
        )
    return (max(1.0, phi) if ridge is None else float(ridge)), phi
