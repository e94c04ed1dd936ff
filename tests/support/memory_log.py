"""A partition's log in memory, with transactions, retention and compaction."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class Stored(NamedTuple):
    """One record; ``transaction`` is 0 for records written without one."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    transaction: int = 0


class MemoryLog:
    """Records by offset; markers take offsets too, and records of aborted transactions leave theirs empty."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.records: list[Stored] = []
        self.history: list[Stored] = []  # also what retention and compaction have deleted
        self.open: dict[int, int] = {}  # first offset of each transaction that has not ended

    @property
    def stable(self) -> int:
        """How far readers of committed records may read."""
        return min(self.open.values(), default=self.end)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, *, transaction: int = 0) -> int:
        if transaction:
            self.open.setdefault(transaction, self.end)
        self.records.append(Stored(self.end, timestamp, key, value, transaction))
        self.history.append(self.records[-1])
        self.end += 1
        return self.end - 1

    def mark(self, transaction: int, *, committed: bool) -> None:
        """Write the marker that ends a transaction here."""
        self.open.pop(transaction, None)
        self.end += 1
        if not committed:
            self.records = [record for record in self.records if record.transaction != transaction]
            self.history = [record for record in self.history if record.transaction != transaction]

    def read(self, offset: int, most: int) -> tuple[list[Stored], int]:
        """Return committed records from ``offset`` on, and where reading goes on."""
        stable = self.stable
        first = bisect_left(self.records, offset, key=lambda record: record.offset)
        found = [record for record in self.records[first : first + most] if record.offset < stable]
        more = first + len(found) < len(self.records) and self.records[first + len(found)].offset < stable
        return found, found[-1].offset + 1 if found and more else max(offset, stable)

    def cut(self, start: int) -> None:
        """Delete what lies before ``start``, as retention does."""
        self.start = max(self.start, min(start, self.end))
        self.records = [record for record in self.records if record.offset >= self.start]

    def compact(self) -> None:
        """Keep the newest committed record of each key."""
        stable = self.stable
        newest = {record.key: record.offset for record in self.records if record.offset < stable}
        self.records = [r for r in self.records if r.offset >= stable or newest[r.key] == r.offset]
