"""The clock of one log, from its record time stamps, and the oldest shown-at that it still serves."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEVER = -(1 << 62)  # before every event; subtracting a horizon from it does not overflow
EVERY = 256  # records between two places that a commit may point to


class LogPosition(NamedTuple):
    """A place in a log: the next offset, and the clock and floor of everything before it."""

    offset: int
    clock: int
    floor: int


class HorizonEra(NamedTuple):
    """From this offset on, events were judged with this horizon H, and no lower floor than this.

    The floor is what idleness had raised it to when the era began: under a longer H the records do not say it.
    """

    offset: int
    horizon_ms: int
    floor: int = NEVER


class LogClock:
    """The clock of one log: the running maximum of its record time stamps.

    ``floor`` is the running maximum of clock − H: a list shown before it is too late for this log. It never falls, so a
    longer H after a restart does not bring back what was forgotten under the shorter one.
    """

    def __init__(self, start: LogPosition, eras: list[HorizonEra]) -> None:
        self.offset, self.clock, self.floor = start  # offset: of the next record
        self.eras = eras
        self._places = [start]
        self._since = 0  # records since the last place

    def advance(self, offsets: NDArray[np.int64], timestamps: NDArray[np.int64], next_offset: int) -> NDArray[np.int64]:
        """Pass over records and return the floor at each of them."""
        if not len(offsets):
            self.offset = max(self.offset, next_offset)
            return offsets
        if offsets[0] < self.offset or (np.diff(offsets) <= 0).any():
            raise ValueError(f"offsets must rise from {self.offset}, got {offsets[0]} to {offsets[-1]}")
        clocks = np.maximum.accumulate(np.maximum(timestamps, self.clock))
        horizon = np.array([era.horizon_ms for era in self.eras])
        lowest = np.array([era.floor for era in self.eras])
        era = np.searchsorted([era.offset for era in self.eras], offsets, side="right") - 1
        floors = np.maximum.accumulate(np.maximum(np.maximum(clocks - horizon[era], lowest[era]), self.floor))
        self._note_places(offsets, clocks, floors)
        self.offset, self.clock, self.floor = next_offset, int(clocks[-1]), int(floors[-1])
        return floors

    def _note_places(self, offsets: NDArray[np.int64], clocks: NDArray[np.int64], floors: NDArray[np.int64]) -> None:
        """Note a place before every 256th record or so: a commit points to the last one that will do."""
        if self._since >= EVERY:
            self._places.append(LogPosition(self.offset, self.clock, self.floor))
            self._since = 0
        for index in range(EVERY, len(offsets), EVERY):
            before = index - 1
            self._places.append(LogPosition(int(offsets[before]) + 1, int(clocks[before]), int(floors[before])))
            self._since = 0
        self._since += (len(offsets) - 1) % EVERY + 1

    def idle_at(self, clock_ms: int) -> None:
        """Note that the next record, whenever it comes, will have at least this time stamp."""
        self.floor = max(self.floor, clock_ms - self.eras[-1].horizon_ms)

    def offset_before(self, offset: int) -> int:
        """Return the offset of the last known place at or before ``offset``."""
        return self.offset if offset >= self.offset else self._places[self._index(offset)].offset

    def _index(self, offset: int) -> int:
        return bisect_right(self._places, offset, key=lambda place: place.offset) - 1

    def place_before(self, offset: int) -> LogPosition:
        """Return the last known place at or before ``offset``, and forget those before it."""
        if offset >= self.offset:
            self._places, self._since = [LogPosition(self.offset, self.clock, self.floor)], 0
        del self._places[: self._index(offset)]
        return self._places[0]

    def eras_from(self, offset: int) -> list[HorizonEra]:
        """Return the eras of the records at ``offset`` and later."""
        first = max(0, bisect_right(self.eras, offset, key=lambda era: era.offset) - 1)
        return self.eras[first:]
