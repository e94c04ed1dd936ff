"""How much of where an item stands is decided by the item: what makes w hard to tell from attractiveness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def settled_places(items: Ints, sizes: Ints, queries: Ints | None = None) -> float:
    """Return the share of the variance of ln k that items explain, each with its query; NaN if none comes twice.

    It is 0 for lists in random order and 1 where every item always has the same place: a place that is seldom clicked
    and an item that few like are the same thing then.

    >>> settled_places(np.array([[7, 8], [7, 8], [7, 8]]), np.array([2, 2, 2]))
    1.0
    >>> abs(settled_places(np.array([[7, 8], [8, 7]] * 500), np.full(1000, 2))) < 0.01
    True
    """
    inside = np.arange(items.shape[1]) < sizes[:, None]
    pair = items if queries is None else queries[:, None] * (items.max() + 1) + items
    item = np.unique(pair[inside], return_inverse=True)[1]
    depth = np.broadcast_to(np.log(np.arange(1, items.shape[1] + 1)), items.shape)[inside]
    rows = np.bincount(item)
    often = rows[item] > 1  # one row alone is at its own mean
    spread = float(np.var(depth[often])) if often.any() else 0.0
    if not spread:
        return float("nan")
    apart = (depth - (np.bincount(item, depth) / rows)[item])[often]
    free = int(often.sum()) - int((rows > 1).sum())
    return float(1 - apart @ apart / free / spread)
