"""Logged lists as checked columns: ids row by row, clicks and sizes list by list."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learner.arrays import Bools, Ints
from learner.browsing import MAX_POSITIONS
from learner.click_models.ids import Ids, checked_ids, row_name

Lists: TypeAlias = NDArray[Any] | Sequence[Sequence[Any]] | Sequence[NDArray[Any]]
"""An (n, K) array, or n sequences that may differ in length."""

Column: TypeAlias = NDArray[Any] | Sequence[Any]
"""One value per list."""


@dataclass(frozen=True, slots=True)
class ClickLog:
    """Lists that were shown and what was clicked in them, checked."""

    items: Ids  # row by row, lists end to end
    queries: Ids | None  # list by list, as the rest
    clicks: Bools  # (lists, K), False beyond a list's end
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def positions(self) -> int:
        """Length K of the longest list."""
        return int(self.clicks.shape[1])

    @property
    def shown(self) -> Bools:
        """Which rows of the (lists, K) matrix are inside their list."""
        return _inside(self.sizes, self.positions)


def read_log(items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None) -> ClickLog:
    """Return lists as columns; a ``ValueError`` names the field, the index and the value that is wrong.

    A click is a number above 0, so rewards can be given as they are. Lists of different length are sequences
    of sequences, or an (n, K) array with ``sizes``, whose values beyond a list's size are not looked at.

    >>> log = read_log([[7, 8, 9], [8]], [[0, 1, 0], [0]])
    >>> log.items, log.sizes
    (array([7, 8, 9, 8]), array([3, 1]))
    >>> log.clicks
    array([[False,  True, False],
           [False, False, False]])
    """
    item_rows, lengths = _rows("items", items, sizes)
    click_rows, click_lengths = _rows("clicks", clicks, sizes)
    _check_lengths(lengths, click_lengths)
    if queries is not None and len(queries) != len(lengths):
        raise ValueError(f"queries has {len(queries)} entries, items has {len(lengths)} lists; give one for each")
    shown = _inside(lengths, int(lengths.max()))
    clicked = np.zeros(shown.shape, dtype=np.bool_)
    clicked[shown] = _clicked(click_rows, lengths)
    return ClickLog(
        items=checked_ids("items", item_rows, lengths),
        queries=None if queries is None else checked_ids("queries", queries),
        clicks=clicked,
        sizes=lengths,
    )


def _inside(sizes: Ints, positions: int) -> Bools:
    return np.arange(positions) < sizes[:, np.newaxis]


def _rows(field: str, lists: Lists, sizes: Column | None) -> tuple[NDArray[Any] | list[Any], Ints]:
    """Return the values of all lists end to end, and the length of each list."""
    if isinstance(lists, np.ndarray) and lists.ndim != 1:
        if lists.ndim != 2:
            raise ValueError(f"{field} must be (lists, positions), got shape {lists.shape}")
        if sizes is None:
            rows, lengths = lists.reshape(-1), np.full(lists.shape[0], lists.shape[1], dtype=np.int64)
        else:
            lengths = _checked_sizes(sizes, field, lists.shape)
            rows = lists[_inside(lengths, lists.shape[1])]
        return rows.tolist() if rows.dtype.kind == "O" else rows, lengths
    if sizes is not None:
        raise ValueError(f"sizes belong to (lists, positions) arrays, but {field} is a sequence of lists")
    for at, each in enumerate(lists):
        one_dimension = each.ndim == 1 if isinstance(each, np.ndarray) else isinstance(each, Sequence)
        if not one_dimension or isinstance(each, str | bytes):
            raise ValueError(f"{field}[{at}] must be a list of values, one per position, got {each!r}")
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    dtypes = {each.dtype if isinstance(each, np.ndarray) else None for each in lists}
    if len(dtypes) == 1 and None not in dtypes:
        return np.concatenate(lists), lengths
    return list(chain.from_iterable(lists)), lengths


def _checked_sizes(sizes: Column, field: str, shape: tuple[int, ...]) -> Ints:
    lengths = np.asarray(sizes)
    if lengths.shape != shape[:1] or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"sizes must be {shape[0]} integers, one per list, got {lengths.dtype} of shape {lengths.shape}"
        )
    if np.any(outside := (lengths < 0) | (lengths > shape[1])):
        at = int(np.argmax(outside))
        raise ValueError(f"sizes[{at}] is {lengths[at]}, but {field} has {shape[1]} columns")
    return lengths.astype(np.int64, copy=False)


def _check_lengths(items: Ints, clicks: Ints) -> None:
    if len(items) != len(clicks):
        raise ValueError(f"clicks has {len(clicks)} lists, items has {len(items)}; give one for each")
    if len(items) == 0:
        raise ValueError("items has no lists; at least one is needed")
    if np.any(unequal := items != clicks):
        at = int(np.argmax(unequal))
        raise ValueError(f"clicks[{at}] has {clicks[at]} entries, items[{at}] has {items[at]}; they must agree")
    if (shortest := int(items.min())) < 1:
        raise ValueError(f"items[{int(np.argmin(items))}] has {shortest} positions; leave empty lists out")
    if (longest := int(items.max())) > MAX_POSITIONS:
        raise ValueError(f"items[{int(np.argmax(items))}] has {longest} positions; at most {MAX_POSITIONS} can be used")


def _clicked(rows: NDArray[Any] | list[Any], sizes: Ints) -> Bools:
    """Return which rewards are clicks, that is above 0."""
    try:
        rewards = np.asarray(rows)
    except ValueError as error:
        raise ValueError("clicks must hold one number per position, got sequences inside a list") from error
    if rewards.ndim != 1 or rewards.dtype.kind not in "biuf":
        rows = list(rows)
        wrong = next(
            (row for row, value in enumerate(rows) if not isinstance(value, int | float | np.number | np.bool_)), 0
        )
        raise ValueError(f"{row_name('clicks', wrong, sizes)} is {rows[wrong]!r}; a click must be a number, 0 for none")
    if np.any(wrong_rows := ~((rewards >= 0) & (rewards < np.inf))):
        wrong = int(np.argmax(wrong_rows))
        raise ValueError(
            f"{row_name('clicks', wrong, sizes)} is {rewards[wrong]}; a click must be 0 or a finite number above"
        )
    return rewards > 0


def settled_positions(items: Ints, sizes: Ints, queries: Ints | None = None) -> float:
    """Return the share of the variance of ln k that items explain, each with its query; NaN if none comes twice.

    It is 0 for lists in random order and 1 where every item always has the same position: a position that is seldom
    clicked and an item that few like are the same thing then.

    >>> settled_positions(np.array([[7, 8], [7, 8], [7, 8]]), np.array([2, 2, 2]))
    1.0
    >>> abs(settled_positions(np.array([[7, 8], [8, 7]] * 500), np.full(1000, 2))) < 0.01
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
