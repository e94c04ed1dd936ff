"""Dead letters counted by reason, with the newest raw records to look at."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from schemas.records import DeadLetter
from streams.dashboard.source import WeightedRecord
from streams.logs import kind_of, letter_of, opened

KEPT, KEPT_BYTES, REASONS = 20, 16 << 20, 200  # records of a reason, bytes of all, reasons


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
            self._count(entry, letter_of(entry.record, entry.partition))

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

    def of_reason(self, number: int) -> list[dict[str, Any]]:
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
            for name, at, letter in found
        ]

    def open(self, name: str) -> dict[str, Any] | None:
        """Return one record for people: where it was, why it was refused, its bytes, and what they decode to."""
        if name not in self._reason_of:
            return None
        at, letter = self._kept[self._reason_of[name]][name]
        return {"id": name, "at": at} | opened(letter)


def _bytes_of(kept: OrderedDict[str, tuple[int, DeadLetter]]) -> int:
    return sum(len(letter.value or b"") for _, letter in kept.values())
