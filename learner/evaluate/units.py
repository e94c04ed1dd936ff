"""Numbers for what an estimator weighs: whole lists, prefixes, items at positions, or items.

A log and a policy are numbered together, so that equal numbers mean the same thing in the same context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learner.evaluate.lists import LoggedLists, Policy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Unit: TypeAlias = Literal["lists", "prefixes", "positions", "items"]


@dataclass(frozen=True, slots=True)
class Units:
    """The numbers of what was logged (n, columns) and of what policies show, below ``count``."""

    logged: Ints
    shown: list[Ints]  # for each policy (m, columns)
    context: Ints  # of each logged list, as small numbers
    context_of: list[Ints]  # of each policy's lists, in the same numbers
    count: int
    contexts: int  # that were logged; a policy may know others, with higher numbers


def number(kind: Unit, log: LoggedLists, *policies: Policy, positions: int) -> Units:
    """Return the units of ``kind``; but for items, which count wherever they stand, lists are cut to ``positions``."""
    blocks = [log.items, *(policy.items for policy in policies)]
    if kind != "items":
        blocks = [_cut(block, positions) for block in blocks]
    lengths = [len(block) for block in blocks]
    ends = np.cumsum(lengths)[:-1]
    names = np.unique(log.contexts)
    everywhere = np.concatenate([log.contexts, *(policy.contexts for policy in policies)])
    place = np.searchsorted(names, everywhere)
    known = place < len(names)
    known[known] = names[place[known]] == everywhere[known]
    place[~known] = len(names)  # contexts that were not logged are never weighed: one number does for all
    columns = max(block.shape[1] for block in blocks)
    rows = np.vstack([_cut(block, columns) for block in blocks])
    coded, count = _codes(kind, place, rows)
    parts = [part[:, : block.shape[1]] for part, block in zip(np.split(coded, ends), blocks, strict=True)]
    if kind == "lists":
        parts = [part[:, -1:] for part in np.split(coded, ends)]
    context, *context_of = np.split(place, ends)
    return Units(parts[0], parts[1:], context, context_of, count, len(names))


def added(by: Ints, values: Floats, groups: int) -> Floats:
    """Return the sum of ``values`` in each of ``groups``; ``by`` has the shape of ``values``.

    >>> added(np.array([[0, 2], [2, 1]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 3)
    array([1., 4., 5.])
    """
    return np.bincount(by.reshape(-1), values.reshape(-1), groups).astype(np.float64, copy=False)


def _codes(kind: Unit, context: Ints, rows: Ints) -> tuple[Ints, int]:
    if kind in ("items", "positions"):
        columns = [np.broadcast_to(context[:, None], rows.shape), rows]
        if kind == "positions":
            columns.append(np.broadcast_to(np.arange(rows.shape[1]), rows.shape))
        code = joint(*(column.reshape(-1) for column in columns))
        return code.reshape(rows.shape), int(code.max()) + 1
    coded = np.empty(rows.shape, dtype=np.int64)
    above, offset = context, 0
    for k in range(rows.shape[1]):
        above = joint(above, rows[:, k])
        coded[:, k] = above + offset
        offset = int(coded[:, k].max()) + 1
    return coded, offset


def joint(first: Ints, *others: Ints) -> Ints:
    """Return one small number for each distinct combination.

    >>> joint(np.array([5, 5, 9]), np.array([1, 2, 1]))
    array([0, 1, 2])
    """
    code = np.unique(first, return_inverse=True)[1]
    for other in others:
        values, place = np.unique(other, return_inverse=True)
        code = np.unique(code * len(values) + place, return_inverse=True)[1]
    return np.asarray(code, dtype=np.int64)


def _cut(items: Ints, positions: int) -> Ints:
    """Return lists of exactly ``positions`` columns, shorter ones filled up with −1."""
    if items.shape[1] >= positions:
        return items[:, :positions]
    return np.pad(items, ((0, 0), (0, positions - items.shape[1])), constant_values=-1)
