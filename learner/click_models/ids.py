"""Item and query ids as small whole numbers: each pair of a query and an item gets a code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from learner.arrays import Ints

Ids: TypeAlias = Ints | list[str]
"""Ids of one kind: all integers or all strings."""


def checked_ids(field: str, rows: NDArray[Any] | Sequence[Any], sizes: Ints | None = None) -> Ids:
    """Return ids as int64 or as a list of strings, or say which one is neither or not like the first.

    >>> checked_ids("items", [3, 5])
    array([3, 5])
    >>> checked_ids("items", [3, None])
    Traceback (most recent call last):
        ...
    ValueError: items[1] is None; ids must be all integers or all strings
    """
    if isinstance(rows, str):
        raise ValueError(f"{field} must be a sequence of ids, got one string {rows!r}")
    if isinstance(rows, np.ndarray):
        if rows.ndim != 1:
            raise ValueError(f"{field} must have one dimension, got shape {rows.shape}")
        if rows.dtype.kind in "iu" and np.can_cast(rows.dtype, np.int64):
            return rows.astype(np.int64, copy=False)
        rows = rows.tolist()
    kinds = {_kind(each) for each in set(map(type, rows))}
    if len(kinds) > 1 or None in kinds:
        first = _kind(type(rows[0]))
        at = next(row for row, value in enumerate(rows) if (kind := _kind(type(value))) is None or kind is not first)
        raise ValueError(f"{row_name(field, at, sizes)} is {rows[at]!r}; ids must be all integers or all strings")
    if str in kinds:
        return list(rows)
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        at = next(row for row, value in enumerate(rows) if not -(2**63) <= value < 2**63)
        raise ValueError(f"{row_name(field, at, sizes)} is {rows[at]}; integer ids must fit in 64 bits") from None


def row_name(field: str, row: int, sizes: Ints | None = None) -> str:
    """Return the name of a row as its caller would write it; with ``sizes``, rows are those of lists end to end.

    >>> row_name("clicks", 4, np.array([3, 2]))
    'clicks[1][1]'
    """
    if sizes is None:
        return f"{field}[{row}]"
    ends = np.cumsum(sizes)
    at = int(np.searchsorted(ends, row, side="right"))
    return f"{field}[{at}][{row - int(ends[at] - sizes[at])}]"


@dataclass(frozen=True, slots=True)
class IdIndex:
    """The distinct ids of a log in their own order, so that codes do not depend on the order of the lists."""

    numbers: Ints  # ascending; none when the ids are words
    words: dict[str, int] | None

    @classmethod
    def met_in(cls, ids: Ids) -> tuple[IdIndex, Ints]:
        """Return the distinct ones of ``ids``, and the code of each."""
        if isinstance(ids, np.ndarray):
            ordered = np.sort(ids)
            index = cls(np.concatenate((ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]])), None)
        else:
            index = cls(np.empty(0, dtype=np.int64), {word: code for code, word in enumerate(sorted(set(ids)))})
        return index, index._codes(ids)

    def __len__(self) -> int:
        return len(self.numbers if self.words is None else self.words)

    def of(self, field: str, ids: Ids) -> Ints:
        """Return the code of each id, and ``len(self)`` for one that the log did not have."""
        if len(ids) == 0:
            return np.empty(0, dtype=np.int64)  # no ids are of either kind
        if isinstance(ids, np.ndarray) != (self.words is None):
            known = "integers" if self.words is None else "strings"
            raise ValueError(f"{field} must be {known} as in fit, got {ids[0]!r}")
        codes = self._codes(ids)
        if self.words is not None:
            return codes
        return np.where(np.take(self.numbers, codes, mode="clip") == ids, codes, len(self))

    def _codes(self, ids: Ids) -> Ints:
        """Return where each id stands or, for an unknown number, would stand."""
        if self.words is None:
            return np.searchsorted(self.numbers, np.asarray(ids))
        return np.fromiter(map(self.words.get, ids, repeat(len(self))), dtype=np.int64, count=len(ids))


@dataclass(frozen=True, slots=True)
class Pairs:
    """The distinct (query, item) pairs of a log, an item id meaning something only together with its query."""

    items: IdIndex
    queries: IdIndex | None
    keys: IdIndex

    @classmethod
    def met_in(cls, items: Ids, queries: Ids | None, sizes: Ints) -> tuple[Pairs, Ints]:
        """Return the distinct pairs of a log, and the code of each row's pair; a query stands for ``size`` rows."""
        item_codes, item = IdIndex.met_in(items)
        if queries is None:
            return cls(item_codes, None, item_codes), item
        query_codes, query = IdIndex.met_in(queries)
        keys, pair = IdIndex.met_in(_keys(query, item, sizes, items=len(item_codes)))
        return cls(item_codes, query_codes, keys), pair

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, items: Ids, queries: Ids | None, sizes: Ints) -> Ints:
        """Return the code of each row's pair, and ``len(self)`` for a pair that the log did not have."""
        item = self.items.of("items", items)
        if self.queries is not None and queries is not None:
            query = self.queries.of("queries", queries)
            return self.keys.of("items", _keys(query, item, sizes, items=len(self.items)))
        if self.queries is None and queries is None:
            return item
        told = "queries must be given, as they were to fit" if queries is None else "queries were not given to fit"
        raise ValueError(f"{told}: an item id means something only together with its query")


def _keys(query: Ints, item: Ints, sizes: Ints, *, items: int) -> Ints:
    """Return one number for each row's query and item, other ones for unknown queries and items too."""
    keys = np.repeat(query, sizes)
    keys *= items + 1
    keys += item
    return keys


def _kind(of: type) -> type | None:
    """Return ``str`` or ``int`` for types that serve as ids; bool is an int to Python, but no id."""
    if issubclass(of, str):
        return str
    return int if issubclass(of, int | np.integer) and not issubclass(of, bool) else None
