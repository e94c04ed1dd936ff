"""Attractiveness by counting the rows that were read: how CM and DCM learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share(pair: NDArray[np.int64], clicked: NDArray[np.bool_], pairs: int) -> NDArray[np.float64]:
    """Return (1 + clicks)/(2 + n) of each pair, n being its rows.

    >>> share(np.array([0, 0, 1]), np.array([True, True, False]), pairs=2)
    array([0.75      , 0.33333333])
    """
    return (1 + np.bincount(pair[clicked], minlength=pairs)) / (2 + np.bincount(pair, minlength=pairs))
