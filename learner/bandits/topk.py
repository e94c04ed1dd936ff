"""The best rows by upper confidence bound, without computing the width of rows that cannot be among them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from learner.arrays import Floats, Ints

PRUNE_ROWS = 2048  # below this, all widths cost less than finding out which are needed
TRIED_ROWS, SAMPLED_ROWS = 128, 512  # whose scores are a floor for all others; by which these are found
FEW_ROWS = 512  # for which preparing takes longer than what it saves
BLOCK_CELLS = 2**17  # numbers worked on at once: they stay in a cache
ROUNDING = 2.0**-44  # scores closer than this share of their scale may differ by rounding alone


@dataclass(frozen=True)
class Solution:
    """What is solved once per state of the sums: θ, and W with W A Wᵀ = I, so that a width is ‖W x‖."""

    theta: Floats
    whitening: Floats

    @cached_property
    def stretch(self) -> tuple[float, float]:
        """The most and the least times that W lengthens a vector."""
        singular = np.linalg.svd(self.whitening, compute_uv=False)
        return float(singular[0]), float(singular[-1])


def top_rows(
    x: Floats,
    solution: Solution,
    *,
    alpha: float,
    size: int,
    squares: Floats | None = None,
    norms: Floats | None = None,
) -> Ints:
    """Return the rows of the ``size`` largest θᵀx + α‖Wx‖, best first; scores equal but for rounding by row.

    Who knows them may give the ``squares`` ‖x‖² or the ``norms`` ‖x‖ of the rows.

    BLAS may round the same row differently at different places of a matrix, so scores that differ by no more than
    rounding count as equal: a candidate that is given twice stands in row order.
    """
    (rows, dim), theta, whitening = x.shape, solution.theta, solution.whitening
    estimate = x @ theta
    slack = ROUNDING * dim * math.sqrt(dim * theta.dot(theta))  # no feature exceeds 1, so |θᵀx| ≤ √d ‖θ‖
    share = ROUNDING * dim
    if alpha == 0.0:
        return best_first(estimate, size, slack=slack)
    if rows > 2 * size and rows > PRUNE_ROWS:  # of long lists too much stays for pruning to pay
        # ‖Wx‖ ≤ ‖W‖ ‖x‖ needs no product with W, and rules most rows out.
        most, least = solution.stretch
        reach = alpha * most * (1 + 1e-9)
        alike = most - least <= 2.0**-50 * most  # W is a multiple of I: nothing was learned
        if norms is None:
            squares = row_squares(x) if squares is None else squares
            upper = reach * np.sqrt(squares) if alike else _lengths(squares, reach)
        else:
            upper = reach * norms
        upper += estimate
        if alike:
            return best_first(upper, size, slack=slack, share=share)
        tried = _highest(upper, size)
        floor = kth_largest(estimate[tried] + alpha * widths(x[tried], whitening), size)
        hopeful = np.flatnonzero(upper >= floor - 2 * (slack + share * abs(float(upper.max()))))
        if len(hopeful) < rows // 2:
            scores = estimate[hopeful] + alpha * widths(x[hopeful], whitening)
            return np.asarray(hopeful[best_first(scores, size, slack=slack, share=share)])
    scores = widths(x, whitening)
    scores *= alpha
    scores += estimate
    return best_first(scores, size, slack=slack, share=share)


def _highest(upper: Floats, size: int) -> Ints:
    """Return at least ``size`` rows, the highest, and about so many that their scores make a good floor for others."""
    wanted = max(TRIED_ROWS, 2 * size)
    step = max(1, len(upper) // SAMPLED_ROWS)
    some = upper[::step]
    rows = np.flatnonzero(upper >= kth_largest(some, max(1, min(len(some), wanted // step))))
    if size <= len(rows) <= 8 * wanted:
        return rows
    lowest = max(0, len(upper) - wanted)
    return np.argpartition(upper, lowest)[lowest:]


def _lengths(squares: Floats, reach: float) -> Floats:
    """Return ``reach`` ‖x‖ or a little more: roots are slow, and ‖x‖ ≤ (‖x‖² / m + m) / 2 whatever m is.

    >>> _lengths(np.array([0.9, 1.0, 1.1]), 2.0).tolist()
    [1.9, 2.0, 2.1]
    """
    middle = math.sqrt(squares[:: max(1, len(squares) // SAMPLED_ROWS)].mean()) or 1.0
    lengths = squares * (0.5 * reach / middle)
    lengths += 0.5 * reach * middle
    return lengths


def widths(x: Floats, whitening: Floats) -> Floats:
    """Return ‖W x‖ for each row of ``x``."""
    if len(x) <= FEW_ROWS:
        white = x @ whitening.T
        squares: Floats = np.vecdot(white, white)
        return np.sqrt(squares)
    return np.sqrt(row_squares(x, whitening))


def row_squares(x: Floats, whitening: Floats | None = None) -> Floats:
    """Return ‖x‖² of each row, or ‖W x‖²."""
    rows, dim = len(x), x.shape[1] if whitening is None else len(whitening)
    sums, ones = np.empty(rows), np.ones(dim)  # a product with ones: numpy's own row sums are slow for short rows
    step = max(1, BLOCK_CELLS // dim)
    space = np.empty((min(rows, step), dim))  # one for all blocks: fresh memory takes longer than the work
    for start in range(0, rows, step):
        block = x[start : start + step]
        squares = space[: len(block)]
        if whitening is not None:
            block = np.matmul(block, whitening.T, out=squares)
        np.matmul(np.square(block, out=squares), ones, out=sums[start : start + step])
    return sums


def kth_largest(scores: Floats, k: int) -> float:
    """Return the k-th largest of ``scores``."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def best_first(scores: Floats, size: int, *, slack: float = 0.0, share: float = 0.0) -> Ints:
    """Return the indices of the ``size`` largest scores, best first; chains of ties stand in index order.

    Two scores tie when they are no further apart than ``slack`` + ``share`` · |the best score|.

    >>> best_first(np.array([1.0, 2.0, 1.0, 2.0]), 3)
    array([1, 3, 0])
    >>> best_first(np.array([0.1, 0.3, 0.3 + 1e-15, 0.2]), 3, slack=1e-12)
    array([1, 2, 3])
    """
    if len(scores) > max(128, 4 * size):
        best = float(scores.max())
        tie = slack + share * abs(best)
        if best - float(scores.min()) <= tie:  # all tie, as before anything was learned
            return np.arange(size)
        # What may enter: the best `size`, and whatever hangs on to the last of them in a chain of ties.
        kept = np.flatnonzero(scores >= kth_largest(scores, size) - tie)
        while len(more := np.flatnonzero(scores >= scores[kept].min() - tie)) > len(kept):
            kept = more
        if best - scores[kept].min() <= tie:
            return np.asarray(kept[:size])
        if len(kept) < len(scores):
            return np.asarray(kept[best_first(scores[kept], size, slack=slack, share=share)])
    order = scores.argsort()[::-1]
    if len(order) > 1:
        ordered = scores[order]
        gaps = ordered[:-1] - ordered[1:]
        tie = slack + share * abs(float(ordered[0]))
        if gaps[:size].min() <= tie:
            keys = np.zeros(len(order), dtype=np.int64)  # chain · n + row
            np.cumsum(gaps > tie, out=keys[1:])
            keys *= len(order)
            keys += order
            keys.sort()
            order = keys % len(order)
    return order[:size]
