"""Clicks that have no list yet: kept until one comes, or until none can come any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, KeysView
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.logs import LogRecord


class Clicks(NamedTuple):
    """Clicks in columns, in the order of their log."""

    records: list[Any]
    ids: list[str]
    session: NDArray[np.object_]
    position: NDArray[np.int64]
    reward: NDArray[np.float64]
    clicked_at: NDArray[np.int64]
    latest: NDArray[np.int64]  # a list shown later is not the one that was clicked
    offset: NDArray[np.int64]
    floor: NDArray[np.int64]  # of the clicks log at each: lists shown before it are closed to the click

    def pick(self, which: NDArray[Any]) -> Clicks:
        """Return the clicks at these indices or under this mask."""
        indices = np.flatnonzero(which).tolist() if which.dtype == np.bool_ else which.tolist()
        return Clicks(
            [self.records[index] for index in indices],
            [self.ids[index] for index in indices],
            *(column[which] for column in self[2:]),
        )

    @classmethod
    def of(cls, rows: Iterable[Waiting]) -> Clicks:
        """Return single clicks as columns."""
        records, ids, sessions, *numbers = zip(*rows, strict=True)
        columns = (np.array(column) for column in numbers)
        return cls(list(records), list(ids), np.array(sessions, np.object_), *columns)


class Waiting(NamedTuple):
    """One click; the fields of Clicks."""

    record: LogRecord
    impression_id: str
    session: str
    position: int
    reward: float
    clicked_at: int
    latest: int
    offset: int
    floor: int


class WaitingClicks:
    """Clicks without a list, by impression id, by age and by offset."""

    def __init__(self) -> None:
        self._clicks: dict[int, Waiting] = {}  # by offset
        self._of_list: dict[str, list[int]] = {}
        self._oldest: list[tuple[int, int]] = []  # a heap of (latest, offset)
        self._offsets: deque[int] = deque()  # rising, some of clicks that are gone
        self._most = 0  # since the memory was last given back

    def __len__(self) -> int:
        return len(self._clicks)

    @property
    def names(self) -> KeysView[str]:
        """The lists that clicks wait for."""
        return self._of_list.keys()

    def add(self, clicks: Clicks) -> None:
        """Keep ``clicks``."""
        columns = (column.tolist() for column in clicks[2:])
        for click in map(Waiting._make, zip(clicks.records, clicks.ids, *columns, strict=True)):
            self._clicks[click.offset] = click
            self._of_list.setdefault(click.impression_id, []).append(click.offset)
            heappush(self._oldest, (click.latest, click.offset))
            if not self._offsets or click.offset > self._offsets[-1]:
                self._offsets.append(click.offset)  # else it waited before, and its offset is still in the line
        self._most = max(self._most, len(self._clicks))

    def take(self, impression_id: str) -> list[Waiting]:
        """Remove and return the clicks on one list."""
        return [self._clicks.pop(offset) for offset in self._of_list.pop(impression_id)]

    def dismiss(self, before_ms: int, most_bytes: int | None = None) -> tuple[list[Waiting], int]:
        """Remove and return clicks whose list cannot be shown at ``before_ms`` or later, and before what time all are.

        With ``most_bytes`` those of the earliest times that make about so many bytes, of one time at least.
        """
        gone: list[Waiting] = []
        size, last = 0, None
        while self._oldest and self._oldest[0][0] < before_ms:
            if most_bytes is not None and size >= most_bytes and self._oldest[0][0] != last:
                before_ms = self._oldest[0][0]
                break
            last, offset = heappop(self._oldest)
            click = self._clicks.pop(offset, None)
            if click is not None:
                gone.append(click)
                size += len(click.record.key or b"") + len(click.record.value or b"")
        for name in {click.impression_id for click in gone}:  # once for each, as one may have very many clicks
            waiting = [offset for offset in self._of_list.pop(name) if offset in self._clicks]
            if waiting:
                self._of_list[name] = waiting
        if len(self._clicks) < self._most // 4:
            self._clicks, self._of_list, self._most = dict(self._clicks), dict(self._of_list), len(self._clicks)
        return gone, before_ms

    def first_offset(self, otherwise: int) -> int:
        """Return the lowest offset that waits, or ``otherwise`` when none does."""
        while self._offsets and self._offsets[0] not in self._clicks:
            self._offsets.popleft()
        return self._offsets[0] if self._offsets else otherwise
