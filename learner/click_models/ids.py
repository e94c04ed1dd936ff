"""Item and query ids in, small whole numbers out: each pair of a query and an item gets a code."""

from __future__ import annotations

from collections.abc import Sequence
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


class Codes:
    """The distinct ids of a log in their own order, so that codes do not depend on the order of the lists."""

    def __init__(self, ids: Ids) -> None:
        if isinstance(ids, np.ndarray):
            ordered = np.sort(ids)
            first = np.concatenate((np.ones(min(1, len(ids)), dtype=np.bool_), ordered[1:] != ordered[:-1]))
            self.numbers: NDArray[np.int64] | None = ordered[first]
            self.words: dict[str, int] = {}
        else:
            self.numbers = None
            self.words = {word: code for code, word in enumerate(sorted(set(ids)))}

    def __len__(self) -> int:
        return len(self.words) if self.numbers is None else len(self.numbers)

    def of(self, field: str, ids: Ids) -> NDArray[np.int64]:
        """Return the code of each id, and ``len(self)`` for one that the log did not have."""
        known = "strings" if self.numbers is None else "integers"
        if isinstance(ids, np.ndarray) != (known == "integers"):
            raise ValueError(f"{field} must be {known} as in fit, got {ids[0]!r}")
        if self.numbers is None:
            unknown = len(self.words)
            return np.fromiter((self.words.get(word, unknown) for word in ids), dtype=np.int64, count=len(ids))
        codes = np.searchsorted(self.numbers, ids)
        found = np.take(self.numbers, codes, mode="clip") == ids
        return np.where(found, codes, len(self.numbers))


class Pairs:
    """The distinct (query, item) pairs of a log, an item id meaning something only together with its query."""

    def __init__(self, items: Ids, queries: Ids | None, sizes: NDArray[np.int64]) -> None:
        self.items = Codes(items)
        self.queries = None if queries is None else Codes(queries)
        self.keys = Codes(self._keys(items, queries, sizes))

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, items: Ids, queries: Ids | None, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the code of each row's pair, and ``len(self)`` for an unknown one; a query stands for ``size`` rows."""
        return self.keys.of("items", self._keys(items, queries, sizes))

    def _keys(self, items: Ids, queries: Ids | None, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = self.items.of("items", items)
        if (queries is None) != (self.queries is None):
            given, missing = ("fit", "here") if queries is None else ("here", "fit")
            raise ValueError(f"queries were given to {given} but not {missing}; give them to both or to none")
        if queries is None or self.queries is None:
            return codes
        of_list = self.queries.of("queries", queries)
        return np.repeat(of_list, sizes) * (len(self.items) + 1) + codes  # + 1: an unknown item has a code too


def _kind(of: type) -> type | None:
    """Return ``str`` or ``int`` for types that serve as ids; bool is an int to Python, but no id."""
    if issubclass(of, str):
        return str
    return int if issubclass(of, int | np.integer) and not issubclass(of, bool) else None
