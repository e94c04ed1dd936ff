"""The reader of raw events: a log's bytes as columns of events, or a reason for each record that is none.

This is the one border that raw events cross. Another format of events plugs in as another ``EventReader.event``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from schemas.codec import MAX_BYTES, Codec, SchemaError
from schemas.event_columns import ClickColumns, ImpressionColumns, read_clicks, read_impressions
from schemas.json_text import parse_json
from schemas.known import SCHEMAS
from schemas.records import Click, Impression, Record
from streams.events.acceptance import CANDIDATES_BYTES
from streams.settings import Settings, SettingsError

LEAST_TOGETHER = 64  # records that are read faster together than one by one
_COLUMNS: Mapping[type, Any] = {Impression: ImpressionColumns, Click: ClickColumns}
_TOGETHER: Mapping[type, Any] = {Impression: read_impressions, Click: read_clicks}
_CURRENT = {"impressions": SCHEMAS[Impression], "clicks": SCHEMAS[Click]}


class Keyed(Protocol):
    """A record as far as its size and its bytes matter."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its bytes."""


K = TypeVar("K", bound=Keyed)
R = TypeVar("R", bound=Record)


def codec_of(settings: Settings) -> Codec:
    """Return the codec of events: it writes Confluent framing for what has an id in ``[registry]``, and reads both."""
    schemas = {}
    for number, schema in settings.registry.items():
        try:
            schemas[number] = _CURRENT[schema] if schema in _CURRENT else parse_json(Path(schema).read_bytes())
        except (OSError, ValueError) as error:
            raise SettingsError(f"registry.{number}", schema, f"is not a readable .avsc file: {error}") from error
    try:
        return Codec(confluent=schemas)
    except SchemaError as error:
        raise SettingsError("registry", dict(settings.registry), str(error)) from error


class SingleEvents(dict[int, Any]):
    """Events by index: those that were read one by one, and any other when it is asked for, which is seldom."""

    def __init__(self, reader: EventReader, records: Sequence[Keyed], kind: type[Any]) -> None:
        super().__init__()
        self._reader, self._records, self._kind = reader, records, kind

    def __missing__(self, index: int) -> Any:
        return self._reader.event(self._records[index].value, self._kind)


class ReadBatch(NamedTuple):
    """The events of a batch in columns, single ones of them, their records, and why other records are none."""

    columns: Any  # ImpressionColumns or ClickColumns
    events: SingleEvents
    records: Sequence[Any]  # of the events
    kept: slice | NDArray[np.bool_]  # which records of the batch are events
    rejected: dict[int, str]  # by index in the batch


class EventReader:
    """Reads raw events as the settings say; the join, the reports and the commands share it.

    Parameters
    ----------
    codec
        The framings and schemas that may arrive.

    Examples
    --------
    >>> from streams.settings import Settings
    >>> reader = EventReader.of(Settings(registry={8: "clicks"}))
    >>> reader.event(bytes.fromhex("0000000008") + b"\\x02i\\x02s\\x04\\x0a" + bytes(8), Click).position
    2
    """

    def __init__(self, codec: Codec | None = None) -> None:
        self._codec = codec or Codec()
        self._headers = {kind: self._codec.column_headers(kind) for kind in _COLUMNS}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the reader of a deployment's events."""
        return cls(codec_of(settings))

    @overload
    def event(self, value: bytes | None, kind: type[R], *, max_bytes: int = MAX_BYTES) -> R: ...

    @overload
    def event(self, value: bytes | None, kind: None = None, *, max_bytes: int = MAX_BYTES) -> Record: ...

    def event(self, value: bytes | None, kind: type[Any] | None = None, *, max_bytes: int = MAX_BYTES) -> Any:
        """Return the event in a record's bytes, which must be a ``kind`` when one is given, or raise SchemaError."""
        return self._codec.decode(value, kind, max_bytes=max_bytes)  # type: ignore[arg-type]  # None is refused there

    def event_or_none(self, value: bytes | None, kind: type[R]) -> R | None:
        """Return the event in a record's bytes, None for what the join rejects as unreadable."""
        try:
            return self.event(value, kind)
        except SchemaError:
            return None

    def read(self, records: Sequence[K], kind: type[Any], most_bytes: int) -> ReadBatch:
        """Read a batch; what has more than ``most_bytes``, its key included and its candidates apart, is rejected.

        Those of the common kind are read all at once, the others one by one: so some that are bad slow nothing but
        themselves.
        """
        together, columns = self._read_together(records, kind, most_bytes)
        if len(together) == len(records):
            return ReadBatch(columns, SingleEvents(self, records, kind), records, slice(None), {})
        single, rejected, kept = dict[int, Any](), dict[int, str](), np.zeros(len(records), np.bool_)
        kept[together] = True
        for index in np.flatnonzero(~kept).tolist():
            try:
                single[index] = self._sized_event(records[index], kind, most_bytes)
            except SchemaError as error:
                rejected[index] = str(error)
        kept[list(single)] = True
        good = list(compress(records, kept.tobytes()))
        events = SingleEvents(self, good, kind)
        if single:
            index_among_good = np.cumsum(kept) - 1
            theirs, others = index_among_good[list(single)], _COLUMNS[kind].of(list(single.values()))
            events.update(zip(theirs.tolist(), single.values(), strict=True))
            columns = columns.merged(index_among_good[together], others, theirs) if len(together) else others
        return ReadBatch(columns, events, good, kept, rejected)

    def _sized_event(self, record: Keyed, kind: type[Any], most_bytes: int) -> Any:
        size = _bytes(record)
        if size <= most_bytes + (CANDIDATES_BYTES if kind is Impression else 0):
            event = self.event(record.value, kind)
            candidates = len(event.candidate_items) + len(event.candidate_contexts) if kind is Impression else 0
            if size - candidates <= most_bytes:
                return event
        raise SchemaError(f"an event of {size} bytes; at most {most_bytes}, the key included and candidates apart")

    def _read_together(
        self, records: Sequence[Keyed], kind: type[Any], most_bytes: int
    ) -> tuple[NDArray[np.int64], Any]:
        """Return which records are events of the common kind, and their columns."""
        if len(records) < LEAST_TOGETHER:
            return np.zeros(0, np.int64), _COLUMNS[kind].of([])
        values = [record.value for record in records]
        longest_key = max(map(len, filter(None, [record.key for record in records])), default=0)
        if None not in values and longest_key + max(map(len, values)) <= most_bytes:  # type: ignore[arg-type]
            return self._columns(values, kind)  # type: ignore[arg-type]
        some = [
            index for index, record in enumerate(records) if record.value is not None and _bytes(record) <= most_bytes
        ]
        which, columns = self._columns([values[index] for index in some], kind)  # type: ignore[misc]
        return np.array(some, np.int64)[which], columns

    def _columns(self, values: Sequence[bytes], kind: type[Any]) -> tuple[NDArray[np.int64], Any]:
        """Read what has the most common header; a log seldom mixes framings."""
        header, end = self._common_header(values, kind)
        which, columns = _TOGETHER[kind](values, header, end)
        return which, columns

    def _common_header(self, values: Sequence[bytes], kind: type[Any]) -> tuple[bytes, bytes]:
        """Return the header that most of about 64 values to be read together have, with how these values end."""
        headers, some = self._headers[kind], values[:: max(1, len(values) // LEAST_TOGETHER)]
        widths = {len(header) for header in headers}
        counts = Counter([value[:width] for width in widths for value in some])
        for header, end in headers.items():
            if end and counts[header]:  # those with optional fields have the header, and another end
                counts[header] = sum(value.startswith(header) and value.endswith(end) for value in some)
        return max(headers.items(), key=lambda known: counts[known[0]])


def _bytes(record: Keyed) -> int:
    return len(record.key or b"") + len(record.value or b"")
