"""Records of a log as events, with the reason for each that is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression
from streams.events import CANDIDATES_BYTES, MAX_ID_BYTES
from streams.join.rules import JoinRules
from streams.logs import LogRecord


class Decoded(NamedTuple):
    """The events of a batch in their order, and why other records are none, by index."""

    events: list[Any]
    refused: dict[int, str]


def decoded(records: Sequence[LogRecord], kind: type[Any], most_bytes: int) -> Decoded:
    """Decode a batch; what has more than ``most_bytes``, its key included and its candidates apart, is refused."""
    values = [record.value for record in records]
    if None not in values:  # all of a batch at once, unless there is something wrong with it
        largest = max(map(len, values), default=0)  # type: ignore[arg-type]
        with suppress(SchemaError):
            if largest + max((len(record.key or b"") for record in records), default=0) <= most_bytes:
                return Decoded([decode(value, kind) for value in values], {})  # type: ignore[arg-type]
    found = Decoded([], {})
    for index, record in enumerate(records):
        size = len(record.key or b"") + len(record.value or b"")
        try:
            if size > most_bytes + (CANDIDATES_BYTES if kind is Impression else 0):
                raise SchemaError(_too_large(size, most_bytes))
            event = decode(record.value, kind)  # type: ignore[arg-type]  # a tombstone is refused there
            if size > most_bytes and size - _candidate_bytes(event) > most_bytes:
                raise SchemaError(_too_large(size, most_bytes))
            found.events.append(event)
        except SchemaError as error:
            found.refused[index] = str(error)
    return found


def _candidate_bytes(event: Impression | Click) -> int:
    return len(event.candidate_items) + len(event.candidate_contexts) if isinstance(event, Impression) else 0


def _too_large(size: int, most_bytes: int) -> str:
    return f"an event of {size} bytes; at most {most_bytes}, the key included and candidates apart"


def longest_id(click: Click) -> int:
    """Return the bytes of the longer one of a click's two ids."""
    return max(len(click.impression_id.encode()), len(click.session_id.encode()))


def bad_click(click: Click, stamp: int, rules: JoinRules) -> str:
    """Return why a click is refused for itself."""
    if not rules.first and longest_id(click) > MAX_ID_BYTES:
        return f"an id of {longest_id(click)} bytes; at most {MAX_ID_BYTES}"
    if click.position < 1:
        return f"position {click.position}; positions start at 1"
    if not 0 <= click.reward < math.inf:
        return f"reward {click.reward:g} is not a finite number of 0 or more"
    ahead, most = (click.clicked_at_ms - stamp) / 1000, rules.accept.future_ms / 1000
    return f"clicked {ahead:g} s after its own record; at most {most:g} s; check the producer's clock"
