"""Click logs as JSON lines (plain or gzip), read into checked columns; a bad line is refused with its number."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from learner.browsing import MAX_POSITIONS
from learner.evaluate import BEYOND_END
from schemas.json_text import parse_json

NEEDED: Final = ("items", "clicks")
PER_LIST: Final = ("session", "query")
PER_ROW: Final = {"contexts": 0.0, "propensities": 1.0, "position_propensities": 1.0}  # and beyond a list's end
CANDIDATES: Final = ("candidate_items", "candidate_contexts")
COLUMNS: Final = (*PER_LIST, *NEEDED, *PER_ROW, *CANDIDATES)
LARGEST_ID: Final = 2**63


class LogError(ValueError):
    """A click log that cannot be used; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """The candidates of each list, end to end, those shown included."""

    items: NDArray[np.int64]  # numbers of items, as those of the lists
    ends: NDArray[np.int64]  # (n + 1) where those of each list begin, and where the last ones end
    contexts: NDArray[np.float32] | None  # a vector for each

    @classmethod
    def of(cls, items: NDArray[np.int64], sizes: Iterable[int], contexts: Sequence[Any]) -> CandidateLists:
        """Return the candidates of lists with these many each, and the vectors of each list, if there are any.

        >>> CandidateLists.of(np.array([4, 7, 7]), [2, 1], []).row(1)
        slice(2, 3, None)
        """
        ends = np.concatenate(([0], np.cumsum(list(sizes), dtype=np.int64)))
        return cls(items, ends, np.concatenate(contexts) if contexts else None)

    def row(self, number: int) -> slice:
        """Return where the candidates of a list are."""
        return slice(int(self.ends[number]), int(self.ends[number + 1]))

    @property
    def list_of(self) -> NDArray[np.int64]:
        """The number of the list that each candidate belongs to."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


@dataclass(frozen=True, slots=True)
class Logs:
    """Lists that were shown and what was clicked, in columns; K is the length of the longest list."""

    name: str
    lines: NDArray[np.int64]  # where each list stands in its file, from 1
    items: NDArray[np.int64]  # (n, K) numbers of items, −1 beyond a list's end
    item_ids: list[Any]  # the id of each number: all whole numbers or all text
    clicks: NDArray[np.float64]  # (n, K) rewards, 0 for no click
    sizes: NDArray[np.int64]
    queries: NDArray[np.int64] | None = None  # (n,) numbers of queries
    query_ids: list[str] = field(default_factory=list)  # the query of each number
    sessions: list[str] | None = None
    contexts: NDArray[np.float32] | None = None  # (n, K, d), 0 beyond a list's end
    propensities: NDArray[np.float64] | None = None  # (n, K) chance of the item here, given those above
    position_propensities: NDArray[np.float64] | None = None  # (n, K) chance of the item here, whatever stood above
    candidates: CandidateLists | None = None  # what each list was chosen from; None: not said
    names: list[str] | None = None  # of the lists, where they stand in no file

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def positions(self) -> int:
        """Length K of the longest list."""
        return int(self.items.shape[1])

    def place(self, row: int) -> str:
        """Return where people find a list."""
        if self.names is not None:
            return f"list {self.names[row]!r} on {self.name}"
        return f"{self.name} line {self.lines[row]}"


def read_logs(path: Path) -> Logs:
    """Return the lists of a log, one JSON object a line.

    ``items`` (ids, best first) and ``clicks`` (a number for each, 0 for none) are needed. ``session``, ``query``,
    ``contexts`` (a vector for each item), ``propensities`` and ``position_propensities`` are taken if every line has
    them: the chance that an item was put where it stood, given the items above, and whatever stood above; so are
    ``candidate_items`` and ``candidate_contexts``, all that a list was chosen from.
    """
    entries = list(_lists(path))
    if not entries:
        raise LogError(f'{path.name} has no lists; each line is {{"query": "q", "items": [7, 8], "clicks": [0, 1]}}')
    line_numbers, lists = zip(*entries, strict=True)
    for key in COLUMNS:
        has = [key in each for each in lists]
        if any(has) and not all(has):
            odd = has.index(not has[0])
            raise LogError(
                f"{path.name} line {line_numbers[odd]} is not like the first: {key!r} must be in all lines or none"
            )
    sizes = np.array([len(each["items"]) for each in lists])
    shown = np.arange(sizes.max()) < sizes[:, None]
    first = lists[0]
    named = [key for key in ("items", "candidate_items") if key in first]
    numbers, item_ids = _numbered([item for key in named for each in lists for item in each[key]])
    clicks = [click for each in lists for click in each["clicks"]]
    queries, query_ids = _numbered([each["query"] for each in lists]) if "query" in first else (None, [])
    rows = {
        key: spread(shown, np.concatenate([each[key] for each in lists]), beyond) if key in first else None
        for key, beyond in PER_ROW.items()
    }
    vectors = [each["candidate_contexts"] for each in lists if "candidate_contexts" in first]
    candidates = (len(each["candidate_items"]) for each in lists if "candidate_items" in first)
    return Logs(
        name=path.name,
        lines=np.array(line_numbers),
        items=spread(shown, numbers[: sizes.sum()], BEYOND_END),
        item_ids=item_ids,
        clicks=spread(shown, np.array(clicks, dtype=np.float64), 0.0),
        sizes=sizes,
        queries=queries,
        query_ids=query_ids,
        sessions=[each["session"] for each in lists] if "session" in first else None,
        candidates=CandidateLists.of(numbers[sizes.sum() :], candidates, vectors) if len(named) > 1 else None,
        **rows,
    )


def _lists(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    kind: type | None = None
    dim: int | None = None
    for number, line in _lines(path):
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise LogError(f"{path.name} line {number} is not JSON: {error}") from error
        try:
            kind, dim = _check(entry, kind, dim)
        except LogError as error:
            raise LogError(f"{path.name} line {number}: {error}") from error
        yield number, entry


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank with their numbers, out of gzip if the file is."""
    number = 0
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError as error:
        raise LogError(f"{path} is not there") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise LogError(f"{path.name} cannot be read after line {number}: {error}") from error


def _check(entry: Any, kind: type | None, dim: int | None) -> tuple[type, int | None]:
    """Refuse a line that is no list; turn its contexts and chances into arrays; return what later ones must share."""
    if not isinstance(entry, dict):
        raise LogError(f"must be a JSON object with {', '.join(NEEDED)}, got {_short(entry)}")
    if unknown := sorted(entry.keys() - set(COLUMNS)):
        raise LogError(f"unknown column {unknown[0]!r}; known are {', '.join(COLUMNS)}")
    if missing := [key for key in NEEDED if key not in entry]:
        raise LogError(f"has no {missing[0]!r}")
    items, clicks = entry["items"], entry["clicks"]
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_POSITIONS:
        raise LogError(f"'items' must be a list of 1 to {MAX_POSITIONS} ids, got {_short(items)}")
    kind = kind or type(items[0])
    _check_ids(items, kind)
    if not isinstance(clicks, list):
        raise LogError(f"'clicks' must be a list of numbers, got {_short(clicks)}")
    if len(clicks) != len(items):
        far = f"; a click lies beyond the list of {len(items)}" if any(clicks[len(items) :]) else ""
        raise LogError(f"'clicks' has {len(clicks)} entries, 'items' has {len(items)}{far}")
    for click in clicks:
        if not isinstance(click, int | float) or not 0 <= click < float("inf"):
            raise LogError(f"a click is 0 or a number above, got {_short(click)}")
    for key in (key for key in PER_LIST if key in entry):
        if type(entry[key]) not in (str, int):
            raise LogError(f"{key!r} must be text or a whole number, got {_short(entry[key])}")
        entry[key] = str(entry[key])
    if "contexts" in entry:
        entry["contexts"] = _array("contexts", entry["contexts"], np.float32, len(items), 2)
        dim = dim or int(entry["contexts"].shape[1])
        if entry["contexts"].shape[1] != dim:
            raise LogError(f"'contexts' has vectors of {entry['contexts'].shape[1]} numbers, the first line of {dim}")
    for key in ("propensities", "position_propensities"):
        if key in entry:
            entry[key] = _array(key, entry[key], np.float64, len(items), 1)
            if not ((entry[key] > 0) & (entry[key] <= 1)).all():
                raise LogError(f"{key!r} must be chances above 0 and up to 1, as these items were shown")
    _check_candidates(entry, kind, dim)
    return kind, dim


def _check_ids(ids: list[Any], kind: type) -> None:
    for item in ids:
        if kind not in (int, str) or type(item) is not kind:
            raise LogError(f"item ids must be all whole numbers or all text, got {_short(item)}")
        if isinstance(item, int) and not -LARGEST_ID <= item < LARGEST_ID:
            raise LogError(f"item id {item} does not fit in 64 bits")


def _check_candidates(entry: dict[str, Any], kind: type, dim: int | None) -> None:
    candidates = entry.get("candidate_items")
    if candidates is None:
        if "candidate_contexts" in entry:
            raise LogError("has 'candidate_contexts' without 'candidate_items'")
        return
    if not isinstance(candidates, list):
        raise LogError(f"'candidate_items' must be a list of ids, got {_short(candidates)}")
    _check_ids(candidates, kind)
    if missing := [item for item in entry["items"] if item not in candidates]:
        raise LogError(f"item {_short(missing[0])} was shown, but is not in 'candidate_items'")
    if "candidate_contexts" in entry:
        vectors = _array("candidate_contexts", entry["candidate_contexts"], np.float32, len(candidates), 2)
        if dim is not None and vectors.shape[1] != dim:
            raise LogError(f"'candidate_contexts' has vectors of {vectors.shape[1]} numbers, 'contexts' of {dim}")
        entry["candidate_contexts"] = vectors


def _array(key: str, values: Any, dtype: type[np.floating[Any]], rows: int, dimensions: int) -> NDArray[Any]:
    try:
        array = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=dtype)
    if array.ndim != dimensions or len(array) != rows or not array.size or not np.isfinite(array).all():
        what = "a vector of numbers" if dimensions == 2 else "a number"
        raise LogError(f"{key!r} must have {what} for each of the {rows} items, all vectors equally long")
    return array


def _numbered(ids: list[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return a number for each id, in the ids' own order, and the ids."""
    names = sorted(set(ids))
    numbers = {name: number for number, name in enumerate(names)}
    return np.fromiter((numbers[each] for each in ids), dtype=np.int64, count=len(ids)), names


def spread(shown: NDArray[np.bool_], rows: NDArray[Any], beyond: float) -> Any:
    """Return rows that stand end to end as lists (n, K, …) filled up with ``beyond``."""
    lists = np.full((*shown.shape, *rows.shape[1:]), beyond, dtype=rows.dtype)
    lists[shown] = rows
    return lists


def _short(value: Any) -> str:
    words = json.dumps(value)
    return words if len(words) <= 60 else words[:57] + "…"
