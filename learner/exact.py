"""Sums that do not depend on order: A and b as integers on a fixed grid.

A float sum depends on the order of its terms, an integer sum does not. Each weighted context is rounded once to a grid
of 2⁻¹⁶; products of grid numbers, added by BLAS in float64, stay below 2⁵³ and are therefore exact whatever the
blocking, the threads or the fused operations; and the totals are kept in two int64 limbs. So the same rows give the
same bits in any order and any batching, and taking a row back leaves no trace.
"""

import hashlib
import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from learner.arrays import Floats, Ints

GRID = 2.0**16  # steps per unit of a weighted context and of a reward
LIMB_BITS = 40  # a total is high · 2⁴⁰ + low, 0 ≤ low < 2⁴⁰
EXACT_ROWS = 2**21  # a row adds at most 2³² to a cell, so sums of this many are exact in float64
BLOCK_CELLS = 2**16  # numbers weighed at once: their buffer stays in the second-level cache, and well below EXACT_ROWS

State = dict[str, Ints]


class ExactSums:
    """Σ s z zᵀ and Σ s z r over rows, where z = rint(2¹⁶ · w x) and r = rint(2¹⁶ · reward), s = ±1."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        # The reward rides along as one more row of z, so that one product gives the sums of A and of b.
        self._low = np.zeros((dim + 1, dim + 1), dtype=np.int64)
        self._high = np.zeros((dim + 1, dim + 1), dtype=np.int64)
        self._carried = False  # whether any high limb is set
        self._uncarried_rows = 0

    def add(self, context: NDArray[np.floating], *, weight: Floats, reward: Floats, sign: Ints | None = None) -> None:
        """Add rows whose contexts, weights and rewards are already checked to lie in [−1, 1], [0, 1] and [0, 1]."""
        rows = len(context)
        step = max(1, BLOCK_CELLS // (self.dim + 1))
        if rows <= step:
            self._add_block(context, weight, reward, sign)
            return
        for start in range(0, rows, step):
            block = slice(start, start + step)
            self._add_block(context[block], weight[block], reward[block], None if sign is None else sign[block])

    def _add_block(self, context: NDArray[np.floating], weight: Floats, reward: Floats, sign: Ints | None) -> None:
        rows, dim = len(context), self.dim
        z = np.empty((dim + 1, rows))  # features as rows: long inner loops, however few the features
        np.multiply(context.T, weight, out=z[:dim])
        z[dim] = reward
        z *= GRID  # a power of two, so this rounds nothing
        np.rint(z, out=z)
        self._low += ((z if sign is None else z * sign) @ z.T).astype(np.int64)
        self._uncarried_rows += rows
        if self._uncarried_rows > EXACT_ROWS - BLOCK_CELLS:
            self._carry()

    def _carry(self) -> None:
        self._high += self._low >> LIMB_BITS
        self._low &= (1 << LIMB_BITS) - 1
        self._uncarried_rows = 0
        self._carried = bool(self._high.any())

    def totals(self) -> Floats:
        """Return the sums in units of the data as a new array: Σ s z zᵀ in [:d, :d], Σ s z r in [:d, d]."""
        if self._carried:
            self._carry()
        totals = self._low.astype(np.float64)
        totals *= GRID**-2
        if self._carried:  # otherwise every total is below 2⁵³ and exact as it stands
            totals += self._high * (2.0**LIMB_BITS * GRID**-2)
        return totals

    @staticmethod
    def state_sizes(dim: int) -> dict[str, int]:
        """Return the length of each array of a state."""
        cells = dim * (dim + 1) // 2
        return {"gram_low": cells, "gram_high": cells, "response_low": dim, "response_high": dim}

    def state(self) -> State:
        """Return the limbs: the upper triangle of A's sums row by row, then b's."""
        self._carry()
        triangle = np.triu_indices(self.dim)
        return {
            "gram_low": self._low[triangle],
            "gram_high": self._high[triangle],
            "response_low": self._low[: self.dim, self.dim].copy(),
            "response_high": self._high[: self.dim, self.dim].copy(),
        }

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over limbs that ``state`` returned."""
        rows, columns = np.triu_indices(self.dim)
        restored = {}
        for limb in ("low", "high"):
            matrix = np.zeros((self.dim + 1, self.dim + 1), dtype=np.int64)
            matrix[rows, columns] = matrix[columns, rows] = checked_cells(state, f"gram_{limb}", len(rows))
            matrix[: self.dim, self.dim] = checked_cells(state, f"response_{limb}", self.dim)
            matrix[self.dim, : self.dim] = matrix[: self.dim, self.dim]
            restored[limb] = matrix
        self._low, self._high = restored["low"], restored["high"]
        self._carry()


def checked_cells(state: Mapping[str, Ints], name: str, length: int) -> Ints:
    """Return one named array of a state, or say that it is missing or of another shape."""
    cells = state.get(name)
    if cells is None:
        raise ValueError(f"the state has no {name!r}; found {sorted(state)}")
    if cells.shape != (length,) or cells.dtype != np.int64:
        raise ValueError(f"{name} must be {length} int64 numbers, got {cells.dtype} of shape {cells.shape}")
    return cells


def state_sha256(settings: Mapping[str, object], state: Mapping[str, Ints]) -> str:
    """Return the SHA-256 of a model's settings and integer state, the same on every machine."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(state):
        cells = np.ascontiguousarray(state[name], dtype="<i8")
        digest.update(f"\n{name}{cells.shape}".encode())
        digest.update(cells.tobytes())
    return digest.hexdigest()
