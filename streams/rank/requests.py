"""What a request for a list may say, as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner.samples import NO_ITEM

EXPLORE = {"on": 1.0, "off": 0.0}
KEYS = ("user", "session", "size", "candidates", "user_features", "explore", "namespace", "bucket_before")
CANDIDATE_KEYS = ("items", "contexts", "tags", "without")


class RequestError(ValueError):
    """A request that asks for nothing that can be given."""


@dataclass(frozen=True, slots=True)
class RankRequest:
    """Who is to see a list, of what, and how long."""

    user: str
    session: str | None = None
    size: int | None = None  # K; None is the bucket's
    items: NDArray[np.int64] | None = None  # None: all that is held
    contexts: NDArray[np.float64] | None = None  # None: made of what is held
    tags: dict[str, list[str]] = field(default_factory=dict)
    without: list[int] = field(default_factory=list)
    user_features: NDArray[np.float64] | None = None  # None: those that are held
    explore: float = 1.0  # a share of α, and of the noise
    namespace: str = ""
    bucket_before: str | None = None


def rank_request(found: Any) -> RankRequest:
    """Return the request that JSON holds, or raise RequestError with what it should be.

    >>> rank_request({"user": "u1", "size": 2, "candidates": {"items": [7, 9]}, "explore": "off"}).explore
    0.0
    """
    if not isinstance(found, dict):
        raise RequestError(f'a request is an object such as {{"user": "u1", "size": 12}}, got {type(found).__name__}')
    _only(found, KEYS, "a request")
    candidates = found.get("candidates") or {}
    if not isinstance(candidates, dict):
        raise RequestError('candidates is an object such as {"items": [7, 9], "contexts": [[0.5], [0.1]]}')
    _only(candidates, CANDIDATE_KEYS, "candidates")
    items = _ids("candidates.items", candidates.get("items"))
    if items is not None and (NO_ITEM in items or len(np.unique(items)) < len(items)):
        raise RequestError(f"candidates.items must name each item once, and none {NO_ITEM}, which stands for no item")
    contexts = _floats("candidates.contexts", candidates.get("contexts"), axes=2)
    tags = _tags(candidates.get("tags") or {})
    if contexts is not None and (items is None or len(items) != len(contexts)):
        raise RequestError("candidates.contexts needs candidates.items, an id for each row")
    if items is not None and tags:
        raise RequestError("candidates has items or tags, not both")
    without = _ids("candidates.without", candidates.get("without"))
    return RankRequest(
        user=_text("user", found.get("user")),
        session=None if found.get("session") is None else _text("session", found["session"]),
        size=_count("size", found.get("size")),
        items=items,
        contexts=contexts,
        tags=tags,
        without=[] if without is None else without.tolist(),
        user_features=_floats("user_features", found.get("user_features"), axes=1),
        explore=_explore(found.get("explore", 1.0)),
        namespace=_text("namespace", found.get("namespace", ""), empty=True),
        bucket_before=None if found.get("bucket_before") is None else _text("bucket_before", found["bucket_before"]),
    )


def _only(found: dict[str, Any], known: tuple[str, ...], name: str) -> None:
    if unknown := sorted(found.keys() - set(known)):
        raise RequestError(f"{name} cannot have {', '.join(map(repr, unknown))}; it may have {', '.join(known)}")


def _text(name: str, value: Any, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty) or len(value.encode()) > 256:
        raise RequestError(f"{name} must be text of at most 256 bytes, got {_shown(value)}")
    return value


def _count(name: str, value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise RequestError(f"{name} must be a whole number from 1, got {_shown(value)}")
    return value


def _ids(name: str, value: Any) -> NDArray[np.int64] | None:
    if value is None:
        return None
    try:
        ids = np.array(value)
    except (ValueError, OverflowError) as error:
        raise RequestError(f"{name} must be a list of whole numbers: {error}") from error
    if ids.ndim != 1 or (ids.dtype != np.int64 and len(ids)):
        raise RequestError(f"{name} must be a list of whole numbers, got {_shown(value)}")
    return ids.astype(np.int64)


def _floats(name: str, value: Any, *, axes: int) -> NDArray[np.float64] | None:
    if value is None:
        return None
    try:
        numbers = np.array(value)
    except ValueError as error:
        raise RequestError(f"{name} must be numbers, as many in each row: {error}") from error
    if numbers.ndim != axes or numbers.dtype.kind not in "if" or not np.isfinite(numbers).all():
        raise RequestError(f"{name} must be {'rows' if axes == 2 else 'a list'} of finite numbers, got {_shown(value)}")
    return numbers.astype(np.float32).astype(np.float64)  # as the log will have them


def _tags(found: Any) -> dict[str, list[str]]:
    if not isinstance(found, dict):
        raise RequestError('candidates.tags is an object such as {"kind": ["hat", "shoe"]}')
    tags = {name: values if isinstance(values, list) else [values] for name, values in found.items()}
    if wrong := [name for name, values in tags.items() if not all(isinstance(value, str) for value in values)]:
        raise RequestError(f"candidates.tags.{wrong[0]} must be text or a list of texts")
    return tags


def _explore(value: Any) -> float:
    if isinstance(value, str) and value in EXPLORE:
        return EXPLORE[value]
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1 and math.isfinite(value):
        return float(value)
    raise RequestError(f'explore must be "on", "off", or a share of it from 0 to 1, got {_shown(value)}')


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
