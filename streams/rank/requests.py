"""A request for a list, and candidates to rank, from their JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from learner.arrays import Floats, Ints
from learner.samples import NO_ITEM
from schemas.json_text import json_lines
from streams.rank.bodies import CandidateLine, CandidatesBody, ClickBody, RankBody

EXPLORE = {"on": 1.0, "off": 0.0}


class RequestError(ValueError):
    """A request that cannot be answered."""


class CandidateError(ValueError):
    """A line that is no candidate."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Items that could be shown, with their contexts (n, d); d is 0 for a context-free bucket."""

    items: Ints
    contexts: Floats


@dataclass(frozen=True, slots=True)
class RankRequest:
    """Who is to see a list, of what, and how long."""

    user: str
    session: str | None = None
    size: int | None = None  # K; None is the bucket's
    items: Ints | None = None  # None: all that is held
    contexts: Floats | None = None  # None: made of what is held
    tags: dict[str, list[str]] = field(default_factory=dict)
    without: list[int] = field(default_factory=list)
    user_features: Floats | None = None  # None: those that are held
    explore: float = 1.0  # a share of α, and of the noise
    namespace: str = ""
    bucket_before: str | None = None


_RANK = msgspec.json.Decoder(RankBody)
_RANK_OR_BATCH = msgspec.json.Decoder(RankBody | list[msgspec.Raw])
_ANY = msgspec.json.Decoder(msgspec.Raw)
_CLICK = msgspec.json.Decoder(ClickBody)


def rank_request(text: bytes | msgspec.Raw) -> RankRequest:
    """Return the request of a JSON object, or raise RequestError with the path of what does not fit.

    >>> rank_request(b'{"user": "u1", "size": 2, "candidates": {"items": [7, 9]}, "explore": "off"}').explore
    0.0
    >>> rank_request(b'{"user": "u1", "candidates": {"items": [7, "9"]}}')
    Traceback (most recent call last):
        ...
    streams.rank.requests.RequestError: Expected `int`, got `str` - at `$.candidates.items[1]`; see /openapi.json
    """
    return _request_of(_decoded(_RANK, text))


def rank_requests(body: bytes) -> RankRequest | list[msgspec.Raw]:
    """Return the request of a body, or those of an array, each still to be read by ``rank_request``."""
    decoded = _decoded(_RANK_OR_BATCH, body)
    return decoded if isinstance(decoded, list) else _request_of(decoded)


def rank_lines(lines: list[bytes]) -> list[msgspec.Raw]:
    """Return the requests of JSON lines, each still to be read by ``rank_request``; all of them must be JSON."""
    return [_decoded(_ANY, line) for line in lines]


def click_event(body: bytes) -> dict[str, Any]:
    """Return the event of a click's body, as /feedback has it."""
    event: dict[str, Any] = msgspec.to_builtins(_decoded(_CLICK, body))
    return event


def _decoded(decoder: msgspec.json.Decoder[Any], text: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise RequestError("nested too deeply; see /openapi.json") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"{error}; see /openapi.json") from error


def _request_of(body: RankBody) -> RankRequest:
    candidates = body.candidates or CandidatesBody()
    items = None if candidates.items is None else np.array(candidates.items, dtype=np.int64)
    if items is not None and (NO_ITEM in items or len(np.unique(items)) < len(items)):
        raise RequestError(f"$.candidates.items must name each item once, and none {NO_ITEM}, which stands for no item")
    if candidates.contexts is not None and (items is None or len(items) != len(candidates.contexts)):
        raise RequestError("$.candidates.contexts needs $.candidates.items, an id for each row")
    if items is not None and candidates.tags:
        raise RequestError("$.candidates has items or tags, not both")
    return RankRequest(
        user=body.user,
        session=body.session,
        size=body.size,
        items=items,
        contexts=None if candidates.contexts is None else _matrix(candidates.contexts),
        tags={
            name: [values] if isinstance(values, str) else values for name, values in (candidates.tags or {}).items()
        },
        without=candidates.without or [],
        user_features=None if body.user_features is None else _as_logged("$.user_features", body.user_features),
        explore=EXPLORE[body.explore] if isinstance(body.explore, str) else body.explore,
        namespace=body.namespace,
        bucket_before=body.bucket_before,
    )


def _matrix(rows: list[list[float]]) -> Floats:
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            raise RequestError(f"$.candidates.contexts[{number}] has {len(row)} numbers, the first row has {width}")
    return _as_logged("$.candidates.contexts", rows)


def _as_logged(path: str, values: list[float] | list[list[float]]) -> Floats:
    """Return numbers rounded to float32, as the log will have them."""
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, and are refused
        numbers = np.array(values, dtype=np.float64).astype(np.float32)
    if not np.isfinite(numbers).all():
        index = "".join(f"[{axis}]" for axis in np.argwhere(~np.isfinite(numbers))[0])
        raise RequestError(f"{path}{index} is beyond ±{np.finfo(np.float32).max:.4g}, the largest number of 32 bits")
    return numbers.astype(np.float64)


def read_candidates(lines: Iterable[str]) -> Candidates:
    """Return the candidates of JSON lines.

    >>> read_candidates(['{"item": 7, "context": [0.5, 0.1]}', '{"item": 9, "context": [0.2, 0.3]}']).items
    array([7, 9])
    """
    items: list[int] = []
    contexts: list[list[float]] = []
    try:
        for number, line in json_lines(lines):
            candidate = msgspec.convert(line, CandidateLine)
            if contexts and len(candidate.context) != len(contexts[0]):
                size = len(candidate.context)
                raise CandidateError(f"line {number} has {size} numbers, the first line has {len(contexts[0])}")
            items.append(candidate.item)
            contexts.append(candidate.context)
    except msgspec.ValidationError as error:
        wanted = '{"item": whole number, "context": [numbers]}'
        raise CandidateError(f"line {number} must be {wanted}: {error}") from error
    except ValueError as error:
        raise CandidateError(str(error)) from error
    if not items:
        raise CandidateError('no candidates; each line is {"item": 7, "context": [0.5, 0.1]}')
    return Candidates(np.array(items, dtype=np.int64), np.array(contexts, dtype=np.float64))
