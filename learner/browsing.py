"""How a user reads a list: the previous click above each row, and the chance that a row was examined."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints

MAX_POSITIONS = 50  # the longest list that tables, samples and click models accept


def previous_click(clicks: ArrayLike) -> Ints:
    """Return, for each position, the 1-based position of the last click above it, or 0; the last axis is the list.

    >>> previous_click(np.array([False, True, False, False, True, False]))
    array([0, 0, 2, 2, 2, 5])
    """
    clicked = np.asarray(clicks) > 0
    clicked_at = np.where(clicked, np.arange(1, clicked.shape[-1] + 1), 0)
    above = np.zeros(clicked.shape, dtype=np.int64)
    np.maximum.accumulate(clicked_at[..., :-1], axis=-1, out=above[..., 1:])
    return above


def checked_table(examination: ArrayLike) -> Floats:
    """Return a K×K table w[k − 1, k′] of examination chances, with zeros where k′ ≥ k, or say what is wrong with it.

    >>> checked_table([[1.0, 9.0], [0.5, 0.25]])
    array([[1.  , 0.  ],
           [0.5 , 0.25]])
    """
    table = np.array(examination, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not 1 <= len(table) <= MAX_POSITIONS:
        raise ValueError(
            f"examination must be a K×K table, row k − 1 and column k′, K from 1 to {MAX_POSITIONS}; "
            f"got shape {table.shape}"
        )
    table = np.tril(np.where(np.tri(len(table), dtype=bool), table, 0.0)) + 0.0  # no −0.0: equal tables, equal bytes
    bad = np.argwhere(~((table >= 0.0) & (table <= 1.0)))
    if len(bad):
        row, column = (int(index) for index in bad[0])
        raise ValueError(f"examination[{row}, {column}] is {table[row, column]}; a chance lies in [0, 1]")
    return table


def checked_positions(examination: ArrayLike) -> Floats:
    """Return the examination chance of each position (K numbers in [0, 1], at least one above 0)."""
    chances = np.array(examination, dtype=np.float64) + 0.0
    if chances.ndim != 1 or not 1 <= len(chances) <= MAX_POSITIONS:
        raise ValueError(
            f"examination must hold one chance per position, 1 to {MAX_POSITIONS} of them; got shape {chances.shape}"
        )
    bad = np.flatnonzero(~((chances >= 0.0) & (chances <= 1.0)))
    if len(bad):
        raise ValueError(f"examination[{bad[0]}] is {chances[bad[0]]}; a chance lies in [0, 1]")
    return chances


def typical_table(positions: int) -> Floats:
    """Return w[k, k′] = 1/(k − k′): looks fall off with the distance from the last click, or from the top.

    It is for who has no table yet: near to what is fitted on logs of web search, where lists are read from the top, and
    to be replaced by one that is fitted on one's own.

    >>> typical_table(3).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.5 , 1.  , 0.  ],
           [0.33, 0.5 , 1.  ]])
    """
    distance = np.arange(1, positions + 1)[:, None] - np.arange(positions)
    return np.asarray(np.tril(1.0 / np.maximum(distance, 1)))


def steepness(examination: Floats, observations: Ints) -> float:
    """Return how steeply a table falls: the power of the depth k that fits it best, each cell by its rows.

    >>> round(steepness(np.array([1.0, 2.0, 3.0]) ** -0.7, np.ones(3, dtype=np.int64)), 6)
    0.7
    """
    if examination.ndim == 1:
        examination, observations = examination[:, None], observations[:, None]
    depth = np.broadcast_to(np.log(np.arange(1, len(examination) + 1))[:, None], examination.shape)
    used = (examination > 0) & (observations > 0)
    x, y, rows = depth[used], np.log(examination[used]), observations[used]
    x, y = x - np.average(x, weights=rows), y - np.average(y, weights=rows)
    spread = float(np.average(x * x, weights=rows))
    return float(-np.average(x * y, weights=rows) / spread) if spread else 0.0


def table_hash(examination: Floats) -> str:
    """Return the SHA-256 of a checked table (K×K, or one chance per position), the same on every machine."""
    table = np.ascontiguousarray(examination, dtype="<f8")
    return hashlib.sha256(repr(table.shape).encode() + table.tobytes()).hexdigest()
