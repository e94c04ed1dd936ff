"""Records of a log as events, with the reason for each that is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.codec import SchemaError, decode
from schemas.event_columns import ClickColumns, ImpressionColumns, read_clicks, read_impressions
from schemas.records import Click, Impression
from streams.events import CANDIDATES_BYTES, MAX_ID_BYTES
from streams.join.rules import JoinRules
from streams.logs import LogRecord, record_bytes

LEAST_TOGETHER = 64  # records that are read faster together than one by one
_COLUMNS: dict[type, Any] = {Impression: ImpressionColumns, Click: ClickColumns}
_READERS: dict[type, Any] = {Impression: read_impressions, Click: read_clicks}


class SingleEvents(dict[int, Any]):
    """Events by index: those that were read one by one, and any other when it is asked for, which is seldom."""

    def __init__(self, records: Sequence[LogRecord], kind: type[Any]) -> None:
        super().__init__()
        self._records, self._kind = records, kind

    def __missing__(self, index: int) -> Any:
        return decode(self._records[index].value, self._kind)  # type: ignore[arg-type]  # an event, so no tombstone


class Decoded(NamedTuple):
    """The events of a batch in columns, single ones of them, their records, and why other records are none."""

    columns: Any  # ImpressionColumns or ClickColumns
    events: SingleEvents
    records: Sequence[LogRecord]
    kept: slice | NDArray[np.bool_]  # of the batch
    refused: dict[int, str]  # by place in the batch


def decoded(records: Sequence[LogRecord], kind: type[Any], most_bytes: int) -> Decoded:
    """Decode a batch; what has more than ``most_bytes``, its key included and its candidates apart, is refused.

    Those of the common kind are read all at once, the others one by one: so some that are bad slow nothing but
    themselves.
    """
    values = [record.value for record in records]
    together, found = _read_together(values, [record.key for record in records], kind, most_bytes)
    if len(together) == len(values):
        return Decoded(found, SingleEvents(records, kind), records, slice(None), {})
    single, refused, kept = dict[int, Any](), dict[int, str](), np.zeros(len(values), np.bool_)
    kept[together] = True
    for index in np.flatnonzero(~kept).tolist():
        size = record_bytes(records[index : index + 1])
        try:
            if size > most_bytes + (CANDIDATES_BYTES if kind is Impression else 0):
                raise SchemaError(_too_large(size, most_bytes))
            event = decode(values[index], kind)  # type: ignore[arg-type]  # a tombstone is refused there
            if size > most_bytes and size - _candidate_bytes(event) > most_bytes:
                raise SchemaError(_too_large(size, most_bytes))
            single[index] = event
        except SchemaError as error:
            refused[index] = str(error)
    kept[list(single)] = True
    good = list(compress(records, kept.tobytes()))
    columns, events = found, SingleEvents(good, kind)
    if single:
        place = np.cumsum(kept) - 1  # of each record among the good ones
        theirs, others = place[list(single)], _COLUMNS[kind].of(list(single.values()))
        events.update(zip(theirs.tolist(), single.values(), strict=True))
        columns = found.merged(place[together], others, theirs) if len(together) else others
    return Decoded(columns, events, good, kept, refused)


def _read_together(
    values: Sequence[bytes | None], keys: Sequence[bytes | None], kind: type[Any], most_bytes: int
) -> tuple[NDArray[np.int64], Any]:
    """Return which records are events of the common kind, and their columns."""
    if len(values) < LEAST_TOGETHER:
        return np.zeros(0, np.int64), _COLUMNS[kind].of([])
    longest_key = max(map(len, filter(None, keys)), default=0)
    if None not in values and longest_key + max(map(len, values)) <= most_bytes:  # type: ignore[arg-type]
        which, found = _READERS[kind](values)
        return which, found
    some = [
        index
        for index, (value, key) in enumerate(zip(values, keys, strict=True))
        if value is not None and len(value) + len(key or b"") <= most_bytes
    ]
    which, found = _READERS[kind]([values[index] for index in some])
    return np.array(some, np.int64)[which], found


def _candidate_bytes(event: Impression | Click) -> int:
    return len(event.candidate_items) + len(event.candidate_contexts) if isinstance(event, Impression) else 0


def _too_large(size: int, most_bytes: int) -> str:
    return f"an event of {size} bytes; at most {most_bytes}, the key included and candidates apart"


def session_hashes(sessions: Sequence[str]) -> NDArray[np.int64]:
    """Return 32 bits of each session's hash; of this process alone."""
    return np.fromiter(map(hash, sessions), np.int64, len(sessions)) & 0xFFFFFFFF


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
