"""Dead letters counted by reason, with the newest raw records to look at."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import DeadLetter
from streams.dashboard.source import WeightedRecord

KEPT, KEPT_BYTES, REASONS = 20, 16 << 20, 200  # records of a reason, bytes of all, reasons
SHOWN_BYTES, SHOWN_NUMBERS = 4096, 60
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[-+±]?\b\d[\d.,e+-]*\b|\b[0-9a-f]{12,}\b")


def kind_of(reason: str) -> str:
    """Return a reason without what varies from record to record.

    >>> kind_of("position 14 is beyond the list of 12; check the producer's K")
    "position … is beyond the list of …; check the producer's K"
    >>> kind_of("unknown bucket 'x'; configured are a, b")
    'unknown bucket …; configured are a, b'
    """
    return _VARIES.sub("…", reason)


@dataclass(slots=True)
class Reason:
    """Refusals for one reason from one topic."""

    number: int
    topic: str
    text: str
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


class Letters:
    """Counts refusals by source topic and reason, and keeps the newest 20 records of each, 16 MB at most."""

    def __init__(self) -> None:
        self.reasons: OrderedDict[tuple[str, str], Reason] = OrderedDict()  # the newest last
        self.total = 0
        self._kept: dict[int, OrderedDict[str, tuple[int, DeadLetter]]] = {}  # by reason, the newest last
        self._reason_of: dict[str, int] = {}
        self._bytes = self._numbers = 0

    def add(self, entries: list[WeightedRecord]) -> None:
        """Take records of the dead-letters topic; what is none itself counts under its own reason."""
        for entry in entries:
            try:
                letter: DeadLetter = decode(entry.record.value or b"", DeadLetter, max_bytes=4 * MAX_BYTES)
            except SchemaError as error:
                place = ("dead-letters", entry.partition, entry.record.offset, entry.record.timestamp)
                letter = DeadLetter(*place, entry.record.key, entry.record.value, f"not a dead letter: {error}")
            self._count(entry, letter)

    def _count(self, entry: WeightedRecord, letter: DeadLetter) -> None:
        key = letter.topic, kind_of(letter.reason)
        if key not in self.reasons:
            self._numbers += 1
            self.reasons[key] = Reason(self._numbers, *key, first_ms=entry.record.timestamp)
        reason = self.reasons[key]
        reason.count += 1
        reason.last_ms = max(reason.last_ms, entry.record.timestamp)
        self.total += 1
        self.reasons.move_to_end(key)
        self._keep(f"{entry.partition}-{entry.record.offset}", reason.number, entry.record.timestamp, letter)
        while len(self.reasons) > REASONS:
            _, old = self.reasons.popitem(last=False)
            while self._kept.get(old.number):
                self._drop(next(iter(self._kept[old.number])))

    def _keep(self, name: str, number: int, at_ms: int, letter: DeadLetter) -> None:
        """Keep a record to look at; room is taken from its own reason, or from the one with the most bytes."""
        self._drop(name)  # of a topic that was made again
        kept = self._kept.setdefault(number, OrderedDict())
        kept[name], self._reason_of[name] = (at_ms, letter), number
        self._bytes += len(letter.value or b"")
        if len(kept) > KEPT:
            self._drop(next(iter(kept)))
        while self._bytes > KEPT_BYTES:
            largest = max(self._kept.values(), key=_bytes_of)
            self._drop(next(iter(largest)))

    def _drop(self, name: str) -> None:
        number = self._reason_of.pop(name, None)
        if number is not None:
            _, gone = self._kept[number].pop(name)
            self._bytes -= len(gone.value or b"")
            if not self._kept[number]:
                del self._kept[number]

    def of_reason(self, number: int, *, most: int = 50) -> list[dict[str, Any]]:
        """Return where the newest records with a reason lie, newest first."""
        found = [(name, at, letter) for name, (at, letter) in self._kept.get(number, {}).items()]
        found.sort(key=lambda one: -one[1])  # partitions are read one after another
        return [
            {
                "id": name,
                "at": at,
                "place": f"{letter.topic}/{letter.partition}@{letter.offset}",
                "bytes": len(letter.value or b""),
                "reason": letter.reason,
            }
            for name, at, letter in found[:most]
        ]

    def open(self, name: str) -> dict[str, Any] | None:
        """Return one record for people: where it was, why it was refused, its bytes, and what they decode to."""
        if name not in self._reason_of:
            return None
        at, letter = self._kept[self._reason_of[name]][name]
        value = letter.value
        return {
            "id": name,
            "at": at,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp_ms,
            "reason": letter.reason,
            "key": None if letter.key is None else letter.key[:256].decode("utf-8", "backslashreplace"),
            "bytes": None if value is None else len(value),
            "hex": (value or b"")[:SHOWN_BYTES].hex(),
            "decoded": decoded(value),
        }


def _bytes_of(kept: OrderedDict[str, tuple[int, DeadLetter]]) -> int:
    return sum(len(letter.value or b"") for _, letter in kept.values())


def decoded(value: bytes | None) -> dict[str, Any]:
    """Return the record in ``value`` field by field, or why there is none."""
    if value is None:
        return {"error": "the record has no value (a tombstone)"}
    try:
        record = decode(value, max_bytes=4 * MAX_BYTES)
    except SchemaError as error:
        return {"error": str(error)}
    names = [part.name for part in fields(record)]
    return {"kind": type(record).__name__, "fields": {name: shown(record, name) for name in names}}


def shown(record: Any, name: str) -> Any:
    """Return a field as JSON can hold it: packed columns as numbers, cut when they are many."""
    value = getattr(record, name)
    if name == "contexts" and isinstance(value, bytes):
        value = np.frombuffer(value, "<f4")
    elif isinstance(value, bytes) and hasattr(record, f"{name}_array"):
        value = getattr(record, f"{name}_array")
    if isinstance(value, bytes):
        return value[:SHOWN_BYTES].hex()
    if isinstance(value, np.ndarray | list):
        numbers = value.tolist() if isinstance(value, np.ndarray) else [str(part) for part in value]
        cut = [round(number, 6) if isinstance(number, float) else number for number in numbers[:SHOWN_NUMBERS]]
        return {"length": len(numbers), "first": [str(n) if n != n or n in (_INF, -_INF) else n for n in cut]}
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return value


_INF = float("inf")
