"""Impressions and clicks made from numpy arrays or JSON lines, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import MAX_POSITIONS
from schemas.json_text import json_lines
from schemas.records import Click, Impression
from schemas.shapes import checked
from streams.events.acceptance import MAX_ID_BYTES, MAX_VERSION_BYTES

Event = Impression | Click
_OPTIONAL = {"contexts", "rendered", "ranked_by_epoch", "ranked_by_offset", "reward", "split_version", "catalogue"} | {
    "propensities",
    "candidate_items",
    "candidate_contexts",
}


def impression_of(
    items: ArrayLike,
    contexts: ArrayLike | None = None,
    *,
    impression_id: str,
    session_id: str,
    bucket: str,
    user_id: str,
    shown_at_ms: int,
    rendered: int | None = None,
    ranked_by_epoch: int = 0,
    ranked_by_offset: int = -1,
    split_version: str = "",
    catalogue: str = "",
    propensities: ArrayLike | None = None,
    candidate_items: ArrayLike | None = None,
    candidate_contexts: ArrayLike | None = None,
) -> Impression:
    """Return a checked impression; without ``rendered``, the whole list was on screen.

    ``propensities`` has the chance with which each item was drawn for its position, given those above. The candidates
    are all items that the list was chosen from, those shown included; without contexts, they are the catalogue's.

    >>> shown = {"impression_id": "i", "session_id": "s", "bucket": "b", "user_id": "u", "shown_at_ms": 0}
    >>> impression_of([7, 9], [[0.5], [float("nan")]], **shown)
    Traceback (most recent call last):
        ...
    ValueError: contexts must be finite as float32, got nan for item 2
    """
    ids = _item_ids(items)
    candidates = _candidates(candidate_items)
    made = Impression(
        impression_id=_text("impression_id", impression_id),
        session_id=_text("session_id", session_id),
        bucket=_text("bucket", bucket),
        user_id=_text("user_id", user_id, empty=True),
        shown_at_ms=_whole("shown_at_ms", shown_at_ms, 0, 1 << 62),
        items=ids.tobytes(),
        contexts=_contexts(contexts, len(ids)).tobytes(),
        rendered=_whole("rendered", len(ids) if rendered is None else rendered, 1, len(ids)),
        ranked_by_epoch=_whole("ranked_by_epoch", ranked_by_epoch, 0, (1 << 31) - 1),
        ranked_by_offset=_whole("ranked_by_offset", ranked_by_offset, -1, 1 << 62),
        split_version=_text("split_version", split_version, empty=True, most=MAX_VERSION_BYTES),
        catalogue=_text("catalogue", catalogue, empty=True),
        propensities=b"" if propensities is None else _propensities(propensities, len(ids)).tobytes(),
        candidate_items=candidates.tobytes(),
        candidate_contexts=_contexts(candidate_contexts, len(candidates), "candidate_contexts").tobytes(),
    )
    return checked(made)


def click_of(*, impression_id: str, session_id: str, position: int, clicked_at_ms: int, reward: float = 1.0) -> Click:
    """Return a checked click.

    >>> click_of(impression_id="i", session_id="s", position=0, clicked_at_ms=0)
    Traceback (most recent call last):
        ...
    ValueError: position must be a whole number from 1 to 50, got 0
    """
    if not isinstance(reward, Real) or isinstance(reward, bool) or not 0 <= reward < math.inf:
        raise ValueError(f"reward must be a finite number from 0, got {reward!r}")
    return Click(
        impression_id=_text("impression_id", impression_id),
        session_id=_text("session_id", session_id),
        position=_whole("position", position, 1, MAX_POSITIONS),
        clicked_at_ms=_whole("clicked_at_ms", clicked_at_ms, 0, 1 << 62),
        reward=float(reward),
    )


def read_events(
    lines: Iterable[str], name: str = "line", *, foreign: Callable[[dict[str, Any]], Event | None] | None = None
) -> Iterator[Event]:
    """Yield the event of each JSON line, in order; blank lines are passed over.

    A line is an object with a ``type`` of "impression" or "click" and the fields of that record; ``items`` is a list of
    whole numbers and ``contexts`` a list of rows. A line that does not fit raises ValueError with its number.
    ``foreign`` translates lines in another's words, those with an ``event``; it returns None for what to pass over.

    >>> line = '{"type": "click", "impression_id": "i1", "session_id": "s1", "position": 2, "clicked_at_ms": 9}'
    >>> list(read_events([line]))
    [Click(impression_id='i1', session_id='s1', position=2, clicked_at_ms=9, reward=1.0)]
    """
    for number, found in json_lines(lines, name):
        try:
            if foreign is not None and isinstance(found, dict) and "event" in found:
                event = foreign(found)
            else:
                event = event_of(found)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} {number}: {error}") from error
        if event is not None:
            yield event


def event_of(found: Any) -> Event:
    """Return the event that a JSON object holds, or raise ValueError with what it should be."""
    if not isinstance(found, dict):
        raise ValueError(f"expected an object with a type, got {type(found).__name__}")
    found = dict(found)
    kind = found.pop("type", None)
    if kind not in ("impression", "click"):
        raise ValueError(f'type must be "impression" or "click", got {json.dumps(kind)}')
    allowed = Impression.__slots__ if kind == "impression" else Click.__slots__
    needed = set(allowed) - _OPTIONAL
    if missing := sorted(needed - found.keys()):
        raise ValueError(f"{kind} without {', '.join(missing)}")
    if unknown := sorted(found.keys() - set(allowed)):
        raise ValueError(f"{kind} has no field {', '.join(unknown)}; allowed: {', '.join(allowed)}")
    return impression_of(**found) if kind == "impression" else click_of(**found)


def _item_ids(items: ArrayLike) -> NDArray[np.int64]:
    ids = np.asarray(items)
    if ids.ndim != 1 or not 1 <= len(ids) <= MAX_POSITIONS:
        raise ValueError(f"items must be 1 to {MAX_POSITIONS} ids in one row, got shape {ids.shape}")
    return _whole_ids("items", ids)


def _candidates(items: ArrayLike | None) -> NDArray[np.int64]:
    ids = np.asarray([] if items is None else items)
    if ids.ndim != 1:
        raise ValueError(f"candidate_items must be ids in one row, got shape {ids.shape}")
    return _whole_ids("candidate_items", ids) if len(ids) else np.empty(0, "<i8")


def _whole_ids(name: str, ids: NDArray[Any]) -> NDArray[np.int64]:
    if ids.dtype.kind not in "iu" or (ids.dtype.kind == "u" and ids.max() > np.iinfo(np.int64).max):
        raise ValueError(f"{name} must be whole numbers of 64 bits, got {ids.dtype}")
    return ids.astype("<i8")


def _propensities(propensities: ArrayLike, rows: int) -> NDArray[np.float32]:
    try:
        drawn = np.asarray(propensities, np.float64).astype("<f4")
    except (TypeError, ValueError) as error:
        raise ValueError(f"propensities must be numbers: {error}") from error
    if drawn.shape != (rows,) or not ((drawn > 0) & (drawn <= 1)).all():
        raise ValueError(f"propensities must be a number above 0 and at most 1 for each of {rows} items, got {drawn}")
    return drawn


def _contexts(contexts: ArrayLike | None, rows: int, name: str = "contexts") -> NDArray[np.float32]:
    if contexts is None:
        return np.empty((rows, 0), "<f4")
    try:
        wide = np.asarray(contexts, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, as many for each item: {error}") from error
    if wide.ndim != 2 or len(wide) != rows:
        raise ValueError(f"{name} must be one row for each of {rows} items, got shape {wide.shape}")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused next
        narrow = wide.astype("<f4")
    finite = np.isfinite(narrow)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(f"{name} must be finite as float32, got {wide[row, column]} for item {row + 1}")
    return narrow


def _text(name: str, value: Any, *, empty: bool = False, most: int = MAX_ID_BYTES) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise ValueError(f"{name} must be text, got {value!r}")
    if len(value) > most // 4 and (size := len(value.encode())) > most:  # 4 bytes a character at most
        raise ValueError(f"{name} must be at most {most} bytes, got {size}: {value[:40]!r}…")
    return value


def _whole(name: str, value: Any, low: int, high: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return number


def user_hash(user_id: str) -> int:
    """Return 64 bits of a user's hash, the same in every process and release; 0 for no user.

    It is no secret: who knows the user ids can compute it.

    >>> user_hash("u-17"), user_hash("")
    (17699964692880525796, 0)
    """
    if not user_id:
        return 0
    digest = blake2b(user_id.encode(), digest_size=8, person=b"glimpse-user").digest()
    return int.from_bytes(digest, "little") or 1
