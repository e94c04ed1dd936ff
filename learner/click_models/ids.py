"""Item and query ids as small whole numbers: each pair of a query and an item gets a code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64] | list[str]
"""Ids of one kind: all integers or all strings."""


def checked_ids(field: str, rows: NDArray[Any] | Sequence[Any], sizes: NDArray[np.int64] | None = None) -> Ids:
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
        raise ValueError(f"{place(field, at, sizes)} is {rows[at]!r}; ids must be all integers or all strings")
    if str in kinds:
        return list(rows)
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        at = next(row for row, value in enumerate(rows) if not -(2**63) <= value < 2**63)
        raise ValueError(f"{place(field, at, sizes)} is {rows[at]}; integer ids must fit in 64 bits") from None


def place(field: str, row: int, sizes: NDArray[np.int64] | None = None) -> str:
    """Return the name of a row as its caller would write it; with ``sizes``, rows are those of lists end to end.

    >>> place("clicks", 4, np.array([3, 2]))
    'clicks[1][1]'
    """
    if sizes is None:
        return f"{field}[{row}]"
    ends = np.cumsum(sizes)
    at = int(np.searchsorted(ends, row, side="right"))
    return f"{field}[{at}][{row - int(ends[at] - sizes[at])}]"


class IdIndex:
    """The distinct ids of a log in their own order, so that codes do not depend on the order of the lists."""

    def __init__(self, numbers: NDArray[np.int64], words: dict[str, int] | None) -> None:
        self.numbers = numbers  # ascending; none when the ids are words
        self.words = words

    @classmethod
    def met_in(cls, ids: Ids) -> tuple[IdIndex, NDArray[np.int64]]:
        """Return the distinct ones of ``ids``, and the code of each."""
        if isinstance(ids, np.ndarray):
            ordered = np.sort(ids)
            codes = cls(np.concatenate((ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]])), None)
        else:
            codes = cls(np.empty(0, dtype=np.int64), {word: code for code, word in enumerate(sorted(set(ids)))})
        return codes, codes._places(ids)

    def __len__(self) -> int:
        return len(self.numbers if self.words is None else self.words)

    def of(self, field: str, ids: Ids) -> NDArray[np.int64]:
        """Return the code of each id, and ``len(self)`` for one that the log did not have."""
        if len(ids) == 0:
            return np.empty(0, dtype=np.int64)  # no ids are of either kind
        if isinstance(ids, np.ndarray) != (self.words is None):
            known = "integers" if self.words is None else "strings"
            raise ValueError(f"{field} must be {known} as in fit, got {ids[0]!r}")
        places = self._places(ids)
        if self.words is not None:
            return places
        return np.where(np.take(self.numbers, places, mode="clip") == ids, places, len(self))

    def _places(self, ids: Ids) -> NDArray[np.int64]:
        """Return where each id stands or, for an unknown number, would stand."""
        if self.words is None:
            return np.searchsorted(self.numbers, np.asarray(ids))
        return np.fromiter(map(self.words.get, ids, repeat(len(self))), dtype=np.int64, count=len(ids))


class Pairs:
    """The distinct (query, item) pairs of a log, an item id meaning something only together with its query."""

    def __init__(self, items: IdIndex, queries: IdIndex | None, keys: IdIndex) -> None:
        self.items = items
        self.queries = queries
        self.keys = keys

    @classmethod
    def met_in(cls, items: Ids, queries: Ids | None, sizes: NDArray[np.int64]) -> tuple[Pairs, NDArray[np.int64]]:
        """Return the distinct pairs of a log, and the code of each row's pair; a query stands for ``size`` rows."""
        item_codes, item = IdIndex.met_in(items)
        if queries is None:
            return cls(item_codes, None, item_codes), item
        query_codes, query = IdIndex.met_in(queries)
        keys, pair = IdIndex.met_in(_keys(query, item, sizes, items=len(item_codes)))
        return cls(item_codes, query_codes, keys), pair

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, items: Ids, queries: Ids | None, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the code of each row's pair, and ``len(self)`` for a pair that the log did not have."""
        item = self.items.of("items", items)
        if self.queries is not None and queries is not None:
            query = self.queries.of("queries", queries)
            return self.keys.of("items", _keys(query, item, sizes, items=len(self.items)))
        if self.queries is None and queries is None:
            return item
        told = "queries must be given, as they were to fit" if queries is None else "queries were not given to fit"
        raise ValueError(f"{told}: an item id means something only together with its query")


def _keys(
    query: NDArray[np.int64], item: NDArray[np.int64], sizes: NDArray[np.int64], *, items: int
) -> NDArray[np.int64]:
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
