"""Dead letters counted by reason, with the newest raw records to look at."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from schemas.records import DeadLetter
from streams.dashboard.source import WeightedRecord
from streams.events import EventReader
from streams.logs import kind_of, letter_of, opened

KEPT, KEPT_BYTES, REASONS = 20, 16 << 20, 200  # records of a reason, bytes of all, reasons


@dataclass(slots=True)
class Reason:
    """Refusals for one reason from one topic, and the newest of them."""

    number: int
    topic: str
    text: str
    first_ms: int
    last_ms: int = 0
    count: int = 0
    kept: dict[str, tuple[int, DeadLetter]] = field(default_factory=dict)  # by name, the newest last

    @property
    def kept_bytes(self) -> int:
        """Bytes of the values that are kept."""
        return sum(len(letter.value or b"") for _, letter in self.kept.values())


class Letters:
    """Counts refusals by source topic and reason, and keeps the newest 20 records of each, 16 MB at most."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self.reasons: OrderedDict[tuple[str, str], Reason] = OrderedDict()  # the newest last
        self.total = 0
        self._reason_of: dict[str, Reason] = {}
        self._bytes = self._numbers = 0

    def add(self, entries: list[WeightedRecord]) -> None:
        """Take records of the dead-letters topic; what is none itself counts under its own reason."""
        for entry in entries:
            letter, at_ms = letter_of(entry.record, entry.partition), entry.record.timestamp
            key = letter.topic, kind_of(letter.reason)
            if key not in self.reasons:
                self._numbers += 1
                self.reasons[key] = Reason(self._numbers, *key, first_ms=at_ms)
            reason = self.reasons[key]
            reason.count += 1
            reason.last_ms = max(reason.last_ms, at_ms)
            self.total += 1
            self.reasons.move_to_end(key)
            self._keep(f"{entry.partition}-{entry.record.offset}", reason, at_ms, letter)
            while len(self.reasons) > REASONS:
                _, oldest = self.reasons.popitem(last=False)
                for name in list(oldest.kept):
                    self._drop(name)

    def _keep(self, name: str, reason: Reason, at_ms: int, letter: DeadLetter) -> None:
        """Keep a record to look at; room is taken from its own reason, or from the one with the most bytes."""
        self._drop(name)  # of a topic that was made again
        reason.kept[name], self._reason_of[name] = (at_ms, letter), reason
        self._bytes += len(letter.value or b"")
        if len(reason.kept) > KEPT:
            self._drop(next(iter(reason.kept)))
        while self._bytes > KEPT_BYTES:
            largest = max(self.reasons.values(), key=lambda reason: reason.kept_bytes)
            self._drop(next(iter(largest.kept)))

    def _drop(self, name: str) -> None:
        reason = self._reason_of.pop(name, None)
        if reason is not None:
            _, letter = reason.kept.pop(name)
            self._bytes -= len(letter.value or b"")

    def of_reason(self, number: int) -> list[dict[str, Any]]:
        """Return where the newest records with a reason lie, newest first."""
        kept = next((reason.kept for reason in self.reasons.values() if reason.number == number), {})
        return [
            {
                "id": name,
                "at": at_ms,
                "place": f"{letter.topic}/{letter.partition}@{letter.offset}",
                "bytes": len(letter.value or b""),
                "reason": letter.reason,
            }
            for name, (at_ms, letter) in sorted(kept.items(), key=lambda item: -item[1][0])  # partitions take turns
        ]

    def open(self, name: str) -> dict[str, Any] | None:
        """Return one record for people: where it was, why it was refused, its bytes, and what they decode to."""
        if name not in self._reason_of:
            return None
        at_ms, letter = self._reason_of[name].kept[name]
        return {"id": name, "at": at_ms} | opened(letter, self._reader)
