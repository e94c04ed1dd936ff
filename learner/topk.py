"""The best rows by upper confidence bound, without computing the width of rows that cannot be among them."""

import numpy as np
from numpy.typing import NDArray

PRUNE_ROWS = 2048  # below this, all widths cost less than finding out which are needed
BLOCK_CELLS = 2**16  # numbers worked on at once: they stay in the second-level cache
ROUNDING = 2.0**-44  # scores closer than this share of their scale may differ by rounding alone


def top_rows(
    x: NDArray[np.float64], *, theta: NDArray[np.float64], whitening: NDArray[np.float64], alpha: float, size: int
) -> NDArray[np.int64]:
    """Return the rows of the ``size`` largest θᵀx + α‖Wx‖, best first; scores equal but for rounding by row.

    BLAS may round the same row differently at different places of a matrix, so scores that differ by no more than
    rounding count as equal: a candidate that is given twice stands in row order.
    """
    rows = len(x)
    size = min(size, rows)
    if size == 0:
        return np.empty(0, dtype=np.int64)
    estimate = x @ theta
    squares = row_squares(x)
    longest = float(squares.max()) ** 0.5
    tie = ROUNDING * longest * (float(theta @ theta) ** 0.5 + alpha * float(np.abs(whitening).max()) * len(theta))
    if alpha == 0.0:
        return best_first(estimate, size, tie=tie)
    if rows > PRUNE_ROWS:
        # ‖Wx‖ ≤ ‖W‖ ‖x‖ needs no product with W, and rules most rows out.
        stretch = alpha * float(np.linalg.norm(whitening, 2)) * (1 + 1e-9)
        upper = np.sqrt(squares, out=squares)
        upper *= stretch
        upper += estimate
        first = np.argpartition(upper, rows - PRUNE_ROWS)[rows - PRUNE_ROWS :]
        floor = kth_largest(estimate[first] + alpha * widths(x[first], whitening), size)
        hopeful = np.flatnonzero(upper >= floor - 2 * tie)
        if len(hopeful) < rows // 2:
            scores = estimate[hopeful] + alpha * widths(x[hopeful], whitening)
            return np.asarray(hopeful[best_first(scores, size, tie=tie)])
    return best_first(estimate + alpha * widths(x, whitening), size, tie=tie)


def widths(x: NDArray[np.float64], whitening: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ‖W x‖ for each row of ``x``."""
    step = max(1, BLOCK_CELLS // x.shape[1])
    if len(x) <= step:
        return np.sqrt(row_squares(x @ whitening.T))
    blocks = [row_squares(x[start : start + step] @ whitening.T) for start in range(0, len(x), step)]
    return np.sqrt(np.concatenate(blocks))


def row_squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squares of each row."""
    ones = np.ones(x.shape[1])
    step = max(1, BLOCK_CELLS // x.shape[1])
    if len(x) <= step:
        return np.asarray((x * x) @ ones)  # a product with ones: numpy's own row sums are slow for short rows
    return np.concatenate([np.square(x[start : start + step]) @ ones for start in range(0, len(x), step)])


def kth_largest(scores: NDArray[np.float64], k: int) -> float:
    """Return the k-th largest of ``scores``."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def best_first(scores: NDArray[np.float64], size: int, *, tie: float = 0.0) -> NDArray[np.int64]:
    """Return the indices of the ``size`` largest scores, best first; chains of scores within ``tie`` by index.

    >>> best_first(np.array([1.0, 2.0, 1.0, 2.0]), 3)
    array([1, 3, 0])
    >>> best_first(np.array([0.1, 0.3, 0.3 + 1e-15, 0.2]), 3, tie=1e-12)
    array([1, 2, 3])
    """
    kept = None
    if len(scores) > 4 * size:
        # What may enter: the best `size`, and whatever hangs on to the last of them in a chain of ties.
        floor = kth_largest(scores, size)
        kept = np.flatnonzero(scores >= floor - tie)
        while len(more := np.flatnonzero(scores >= scores[kept].min() - tie)) > len(kept):
            kept = more
        scores = scores[kept]
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    if (ordered[:-1] - ordered[1:])[:size].min(initial=np.inf) <= tie:
        chain = np.concatenate(([0], np.cumsum(ordered[:-1] - ordered[1:] > tie)))
        order = order[np.lexsort((order, chain))]
    order = order[:size]
    return np.asarray(order if kept is None else kept[order])
