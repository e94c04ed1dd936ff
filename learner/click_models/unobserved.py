"""Values for the cells of a table that no list ever reached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def filled(
    table: NDArray[np.float64], observations: NDArray[np.int64], possible: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], int]:
    """Return ``table`` with unobserved possible cells at the mean of their row's observed ones, and their number.

    A row without any observed cell has no mean and keeps its values.

    >>> table = np.array([[0.9, 0.0], [0.4, 0.5]])
    >>> filled(table, np.array([[7, 0], [3, 0]]), np.tri(2, dtype=bool))
    (array([[0.9, 0. ],
           [0.4, 0.4]]), 1)
    """
    observed = possible & (observations > 0)
    gaps = possible & ~observed
    count = observed.sum(axis=1, keepdims=True)
    mean = np.where(observed, table, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return np.where(gaps & (count > 0), mean, table), int(np.count_nonzero(gaps))
