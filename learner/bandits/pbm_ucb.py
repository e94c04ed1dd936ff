"""PBM-UCB: a context-free bandit, sums per item id weighted by the position's examination."""

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Bools, Floats, Ints
from learner.bandits.bandit import Bandit, checked_count, checked_number
from learner.bandits.topk import best_first
from learner.browsing import checked_positions, table_hash
from learner.exact import GRID, State, checked_cells
from learner.samples import NO_ITEM, Samples, refuse

UNSEEN_WIDTH = 1e300  # without an upper bound, but a number, so that two new items tie


class PbmUcb(Bandit):
    """Click rate of each item, corrected for where it was shown, with the upper bound of Lagrée et al. (2016).

    With S an item's clicks, N how often it was shown and Ñ the sum of the examination chances it was shown with, its
    score is S/Ñ + √(N/Ñ) √(δ/(2Ñ)), δ = ln t. A new item has no upper bound and comes first.

    Parameters
    ----------
    examination
        The chance that each position is examined, K numbers.
    alpha
        √δ; None grows it as √(ln t), 0 ranks by the estimate alone.
    reward_scale
        Rewards are divided by this; then 0 ≤ reward ≤ 1 must hold.

    Examples
    --------
    >>> model = PbmUcb(examination=[1.0, 0.5], alpha=0)
    >>> model.learn(Samples.from_clicks(np.zeros((2, 2, 1)), [[1, 0], [0, 1]], items=[[7, 8], [7, 8]]))
    >>> model.predict(items=[7, 8])
    array([0.5, 1. ])
    """

    name = "pbm-ucb"
    options = ("examination", "alpha", "reward_scale")
    recorded = ("positions", "alpha", "reward_scale", "examination")
    contextual = False
    table_axes = 1
    prior: ClassVar[float] = 0.5  # the estimate of an item that was never shown, as in the click models

    def __init__(self, *, examination: ArrayLike, alpha: float | None = None, reward_scale: float = 1.0) -> None:
        self.examination = checked_positions(examination)
        self.examination_sha256 = table_hash(self.examination)
        super().__init__(positions=len(self.examination), reward_scale=reward_scale)
        self.fixed_alpha = None if alpha is None else checked_number("alpha", alpha, least=0.0)
        self.items = np.empty(0, dtype=np.int64)  # ascending
        self._sums = np.zeros((3, 0), dtype=np.int64)  # per item: N, Ñ on the grid, S on the grid

    @classmethod
    def state_sizes(cls, dim: int, positions: int) -> dict[str, int | None]:
        """Return the length of each array of a state; most have one number per item."""
        return {"rounds": 1, "items": None, "shown": None, "seen": None, "clicked": None}

    @property
    def alpha(self) -> float:
        """√δ of the next round, t = rounds + 1."""
        return math.sqrt(math.log(max(self.rounds, 0) + 1)) if self.fixed_alpha is None else self.fixed_alpha

    @property
    def theta(self) -> Floats:
        """The estimated attractiveness of each of ``items``."""
        return self._estimate(self._sums)

    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples`` (take back those of sign −1); on bad input nothing changes."""
        self._check_lists(samples)
        if np.any(unnamed := samples.item == NO_ITEM):
            refuse("item", samples.item, unnamed, "a context-free model needs item ids: from_clicks(…, items=…)")
        sign = samples.row_sign()
        counts = np.ones(samples.rows) if sign is None else sign.astype(np.float64)
        seen = np.rint(self.examination[samples.position - 1] * GRID)
        reward = np.rint(samples.reward / self.reward_scale * GRID)
        items, row_item = np.unique(samples.item, return_inverse=True)
        # bincount adds in float64, where whole numbers below 2⁵³ are exact
        sums = [np.bincount(row_item, weights=counts * column, minlength=len(items)) for column in (1.0, seen, reward)]
        self._add(items, np.array(sums).astype(np.int64))
        self.rounds += int(samples.sign.sum())

    def _add(self, items: Ints, sums: Ints) -> None:
        """Add sums per item; an item whose sums are all zero leaves no trace, as if it had never been shown."""
        column, known = self._columns(items)
        if not known.all():
            new = items[~known]
            where = np.searchsorted(self.items, new)
            self.items = np.insert(self.items, where, new)
            self._sums = np.insert(self._sums, where, 0, axis=1)
            column = np.searchsorted(self.items, items)
        self._sums[:, column] += sums
        gone = column[~self._sums[:, column].any(axis=0)]
        if len(gone):
            self.items, self._sums = np.delete(self.items, gone), np.delete(self._sums, gone, axis=1)

    def _columns(self, items: Ints) -> tuple[Ints, Bools]:
        """Return the column of each of ``items`` in the sums, and whether the item is known."""
        column = np.searchsorted(self.items, items)
        known = column < len(self.items)
        known[known] = self.items[column[known]] == items[known]
        return column, known

    def predict(self, candidates: ArrayLike | None = None, items: ArrayLike | None = None) -> Floats:
        """Return the estimated attractiveness of each of ``items``; ``candidates`` are not looked at."""
        return self._estimate(self._sums_of(items))

    def rank(
        self,
        candidates: ArrayLike | None = None,
        size: int = 12,
        items: ArrayLike | None = None,
        *,
        explore: float = 1.0,
    ) -> Ints:
        """Return the rows of the ``size`` items with the largest upper bound, best first, ties by row.

        ``explore`` is a share of α; with 0 the estimate alone decides.
        """
        return best_first(self._upper_bounds(items, explore), checked_count("size", size))

    def scores(
        self, candidates: ArrayLike | None = None, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> Floats:
        """Return the upper bound of each of ``items``, at most 1: no item is clicked more often than looked at."""
        return np.minimum(self._upper_bounds(items, explore), 1.0)

    def _upper_bounds(self, items: ArrayLike | None, explore: float) -> Floats:
        sums = self._sums_of(items)
        shown, seen = sums[0], sums[1] / GRID
        width = np.full(len(seen), UNSEEN_WIDTH)
        np.divide(np.sqrt(np.maximum(shown, 0) / 2), seen, out=width, where=seen > 0)
        alpha = self.alpha * explore
        return self._estimate(sums) + (alpha * width if alpha > 0 else 0.0)

    def _sums_of(self, items: ArrayLike | None) -> Ints:
        if items is None:
            raise ValueError("a context-free model ranks item ids, and got none; pass items=…")
        ids = np.asarray(items)
        if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
            raise ValueError(f"items must be one row of whole numbers, got {ids.dtype} of shape {ids.shape}")
        sums = np.zeros((3, len(ids)), dtype=np.int64)
        column, known = self._columns(ids.astype(np.int64))
        sums[:, known] = self._sums[:, column[known]]
        return sums

    def _estimate(self, sums: Ints) -> Floats:
        estimate = np.full(sums.shape[1], self.prior)
        np.divide(sums[2], sums[1], out=estimate, where=sums[1] > 0)
        return estimate

    def state(self) -> State:
        """Return the sums per item and the rounds as integers; the same lists give the same integers in any order."""
        shown, seen, clicked = (row.copy() for row in self._sums)
        return {
            "rounds": np.array([self.rounds]),
            "items": self.items.copy(),
            "shown": shown,
            "seen": seen,
            "clicked": clicked,
        }

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over a state that a model with the same settings returned."""
        rounds = int(checked_cells(state, "rounds", 1)[0])
        known = len(state.get("items", ()))
        items, *sums = (checked_cells(state, name, known) for name in ("items", "shown", "seen", "clicked"))
        if np.any(np.diff(items) <= 0):
            raise ValueError("items must be ascending and each named once")
        self.rounds, self.items, self._sums = rounds, items.copy(), np.array(sums)

    def merge(self, other: Self) -> None:
        """Add what another model with the same settings learned from other lists."""
        self._check_same(other)
        self._add(other.items, other._sums)
        self.rounds += other.rounds
