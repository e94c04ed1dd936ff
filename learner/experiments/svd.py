"""A matrix in, its largest singular vectors out: the truncated randomised SVD of Halko, Martinsson and Tropp (2011)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OVERSAMPLED = 10
POWERS = 4


def truncated_svd(matrix: Floats, rank: int, random: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return U (n, rank), S (rank,) and V (m, rank) with matrix ≈ U S Vᵀ, the largest singular values first.

    >>> u, s, v = truncated_svd(np.outer([3.0, 4.0], [1.0, 0.0, 0.0]), 1, np.random.default_rng(0))
    >>> s.round(6), np.abs(u[:, 0]).round(6)
    (array([5.]), array([0.6, 0.8]))
    """
    if not 1 <= rank <= min(matrix.shape):
        raise ValueError(f"rank must be 1 to {min(matrix.shape)} for a matrix of shape {matrix.shape}, got {rank}")
    sketch = matrix @ random.normal(size=(matrix.shape[1], min(rank + OVERSAMPLED, min(matrix.shape))))
    basis = np.linalg.qr(sketch)[0]
    for _ in range(POWERS):  # sharpens the decay of the singular values
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    left, values, right = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    return np.asarray((basis @ left)[:, :rank]), np.asarray(values[:rank]), np.asarray(right[:rank].T)
