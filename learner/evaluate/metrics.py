"""Click rates of logged lists: CTR_sum and CTR_set."""

import numpy as np
from numpy.typing import ArrayLike


def ctr_sum(rewards: ArrayLike) -> float:
    """Return what a list earns on average, all its positions together; ``rewards`` are (lists, positions).

    >>> ctr_sum([[1, 0, 1], [0, 0, 0]])
    1.0
    """
    return float(np.mean(np.sum(_checked(rewards), axis=1)))


def ctr_set(rewards: ArrayLike) -> float:
    """Return the share of lists that earned anything, E[F(S)].

    >>> ctr_set([[1, 0, 1], [0, 0, 0]])
    0.5
    """
    return float(np.mean(np.any(_checked(rewards) > 0, axis=1)))


def _checked(rewards: ArrayLike) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    found = np.asarray(rewards, dtype=np.float64)
    if found.ndim != 2 or not len(found):
        raise ValueError(f"rewards must be (lists, positions) with at least one list, got shape {found.shape}")
    return found
