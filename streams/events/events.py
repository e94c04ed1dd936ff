"""Impressions and clicks made from numpy arrays or JSON lines, if types and shapes fit; ``rules`` judge the rest."""

from __future__ import annotations

import json
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
from schemas.strict import checked
from streams.events.acceptance import MAX_ID_BYTES

Event = Impression | Click
_NEEDED = {"impression_id", "session_id", "bucket", "user_id", "shown_at_ms", "items", "position", "clicked_at_ms"}


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
    """Return an impression of these values; without ``rendered``, the whole list was on screen.

    ``propensities`` has the chance with which each item was drawn for its position, given those above. The candidates
    are all items that the list was chosen from, those shown included; without contexts, they are the catalogue's.

    >>> shown = {"impression_id": "i", "session_id": "s", "bucket": "b", "user_id": "u", "shown_at_ms": 0}
    >>> impression_of([7, 9], [[0.5]], **shown)
    Traceback (most recent call last):
        ...
    ValueError: contexts must be one row for each of 2 items, got shape (1, 1)
    """
    ids = _ids("items", items, shown=True)
    candidates = _ids("candidate_items", [] if candidate_items is None else candidate_items, shown=False)
    made = Impression(
        impression_id=_text("impression_id", impression_id),
        session_id=_text("session_id", session_id),
        bucket=_text("bucket", bucket),
        user_id=_user(user_id),
        shown_at_ms=_whole("shown_at_ms", shown_at_ms, 0, 1 << 62),
        items=ids.tobytes(),
        contexts=_contexts(contexts, len(ids)).tobytes(),
        rendered=_whole("rendered", len(ids) if rendered is None else rendered),
        ranked_by_epoch=_whole("ranked_by_epoch", ranked_by_epoch, 0),
        ranked_by_offset=_whole("ranked_by_offset", ranked_by_offset, -1, 1 << 62),
        split_version=_text("split_version", split_version, empty=True),
        catalogue=_text("catalogue", catalogue, empty=True),
        propensities=b"" if propensities is None else _propensities(propensities, len(ids)).tobytes(),
        candidate_items=candidates.tobytes(),
        candidate_contexts=_contexts(candidate_contexts, len(candidates), "candidate_contexts").tobytes(),
    )
    return checked(made)


def click_of(*, impression_id: str, session_id: str, position: int, clicked_at_ms: int, reward: float = 1.0) -> Click:
    """Return a click of these values.

    >>> click_of(impression_id="i", session_id="s", position=1.5, clicked_at_ms=0)
    Traceback (most recent call last):
        ...
    ValueError: position must be a whole number from -2147483648 to 2147483647, got 1.5
    """
    if not isinstance(reward, Real) or isinstance(reward, bool):
        raise ValueError(f"reward must be a number, got {reward!r}")
    return Click(
        impression_id=_text("impression_id", impression_id),
        session_id=_text("session_id", session_id),
        position=_whole("position", position),
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
    for number, record in json_lines(lines, name):
        try:
            is_foreign = foreign is not None and isinstance(record, dict) and "event" in record
            event = foreign(record) if foreign is not None and is_foreign else event_of(record)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} {number}: {error}") from error
        if event is not None:
            yield event


def event_of(body: Any) -> Event:
    """Return the event that a JSON object holds, or raise ValueError with what it should be."""
    if not isinstance(body, dict):
        raise ValueError(f"expected an object with a type, got {type(body).__name__}")
    body = dict(body)
    kind = body.pop("type", None)
    if kind not in ("impression", "click"):
        raise ValueError(f'type must be "impression" or "click", got {json.dumps(kind)}')
    allowed = (Impression if kind == "impression" else Click).__struct_fields__
    if missing := sorted(_NEEDED & set(allowed) - body.keys()):
        raise ValueError(f"{kind} without {', '.join(missing)}")
    if unknown := sorted(body.keys() - set(allowed)):
        raise ValueError(f"{kind} has no field {', '.join(unknown)}; allowed: {', '.join(allowed)}")
    return impression_of(**body) if kind == "impression" else click_of(**body)


def _ids(name: str, items: ArrayLike, *, shown: bool) -> NDArray[np.int64]:
    ids = np.asarray(items)
    if ids.ndim != 1 or (shown and not 1 <= len(ids) <= MAX_POSITIONS):
        number = f"1 to {MAX_POSITIONS} " if shown else ""
        raise ValueError(f"{name} must be {number}ids in one row, got shape {ids.shape}")
    too_large = ids.dtype.kind == "u" and ids.max(initial=0) > np.iinfo(np.int64).max
    if len(ids) and (ids.dtype.kind not in "iu" or too_large):
        raise ValueError(f"{name} must be whole numbers of 64 bits, got {ids.dtype}")
    return ids.astype("<i8")


def _propensities(propensities: ArrayLike, rows: int) -> NDArray[np.float32]:
    try:
        drawn = np.asarray(propensities, np.float64).astype("<f4")
    except (TypeError, ValueError) as error:
        raise ValueError(f"propensities must be numbers: {error}") from error
    if drawn.shape != (rows,):
        raise ValueError(f"propensities must be a number for each of {rows} items, got shape {drawn.shape}")
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
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and breaks a rule
        return wide.astype("<f4")


def _text(name: str, value: Any, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise ValueError(f"{name} must be text, got {value!r}")
    value.encode()  # half a surrogate pair is no text, and raises a ValueError
    return value


def _user(user_id: str) -> str:
    """Return a user's id; only here is its length limited, since the join reads no more of it than a hash."""
    if len(_text("user_id", user_id, empty=True).encode()) > MAX_ID_BYTES:
        raise ValueError(f"user_id must be at most {MAX_ID_BYTES} bytes, got {user_id[:40]!r}…")
    return user_id


def _whole(name: str, value: Any, low: int = -(1 << 31), high: int = (1 << 31) - 1) -> int:
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
