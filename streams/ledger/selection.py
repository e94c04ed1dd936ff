"""Which lists to take back: by the time they were shown, by their ids, by session or by user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.codec import SchemaError, decode
from schemas.records import Impression
from streams.ledger.lists import ListName
from streams.logs import LogSource

EVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Selection:
    """Lists shown in a range of time; if any ids, sessions or users are named, only those of one of them."""

    from_ms: int = -EVER_MS
    to_ms: int = EVER_MS
    impressions: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    @property
    def by_person(self) -> bool:
        """Whether sessions or users are named, which samples do not know: the raw events must tell whose a list is."""
        return bool(self.sessions or self.users)

    def has_person(self, impression: Impression) -> bool:
        """Return whether a list was shown to one of the sessions or users."""
        return impression.session_id in self.sessions or impression.user_id in self.users


class Owners:
    """Whose lists are whose, as far as the impressions log still tells."""

    def __init__(self, source: LogSource, selection: Selection) -> None:
        self._selection = selection
        self._first: dict[int, int] = {}  # offset that a partition of the impressions still has
        self._theirs: set[ListName] = set()
        if selection.by_person:
            for partition in range(source.partitions("impressions")):
                start, stop = source.bounds("impressions", partition)
                self._first[partition] = start
                self._theirs.update(self._read(source, partition, start, stop))

    def _read(self, source: LogSource, partition: int, start: int, stop: int) -> Iterator[ListName]:
        wanted = [name.encode() for name in self._selection.sessions | self._selection.users]
        for block in source.read("impressions", partition, start, stop):
            for record in block.records():
                value = record.value or b""
                if not any(name in value for name in wanted):  # most are not decoded
                    continue
                try:
                    impression: Impression = decode(value, Impression)
                except SchemaError:
                    continue  # the join refused it too
                if self._selection.has_person(impression):
                    yield ListName(impression.impression_id, partition, record.offset)

    def chosen(self, name: ListName) -> bool:
        """Return whether a list is selected, or may be."""
        if not (self._selection.impressions or self._selection.by_person):
            return True
        return name.impression_id in self._selection.impressions or name in self._theirs or self.unknown(name)

    def unknown(self, name: ListName) -> bool:
        """Return whether nobody can tell any more to whom a list was shown."""
        named = name.impression_id in self._selection.impressions
        return self._selection.by_person and not named and name.offset < self._first.get(name.partition, EVER_MS)
