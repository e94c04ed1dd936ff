"""The clock of one log, from its record time stamps; and the oldest shown-at that it still serves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.join.commit import NEVER, FloorMark, LogPart, LogPosition
from streams.join.rules import LogEras

LATEST = 1 << 61  # what is stamped later counts as stamped then: no sum of times overflows
EVERY = 256  # records between two positions that a commit may point to
MOST_MARKS = 48  # that a commit can carry

Ints = NDArray[np.int64]


class Times(NamedTuple):
    """When records of a log came, in columns."""

    offset: Ints
    stamp: Ints
    clock: Ints  # of the log, this record included
    floor: Ints  # lists shown before it are closed to this record

    def pick(self, which: slice | Ints | NDArray[np.bool_]) -> Times:
        """Return the times of some records."""
        return Times(*(column[which] for column in self))


class TopStamps:
    """The two largest time stamps of a log over distinct keys; the second is the log's clock.

    So neither one record nor one session can move the clock, whatever they claim. Records without a key count as one
    key.

    >>> top = TopStamps(NEVER, "", NEVER)
    >>> top.clocks([5, 9, 7, 6], [b"a", b"b", b"b", b"c"])[1:]
    [5, 5, 6]
    """

    def __init__(self, first: int, first_key: str, clock: int) -> None:
        self.first, self.clock = max(first, clock), clock
        self._hash: str | None = first_key  # None while the key itself is known
        self._key: object = self  # equal to no key

    def copy(self) -> TopStamps:
        """Return another one that stands where this one does."""
        return TopStamps(self.first, self.first_key, self.clock)

    @property
    def first_key(self) -> str:
        """The hash of the key that has the largest stamp."""
        return self._hash if self._hash is not None else key_hash(self._key)  # type: ignore[arg-type]

    def clocks(self, stamps: Sequence[int], keys: Sequence[bytes | None]) -> list[int]:
        """Pass over records and return the clock at each."""
        if self._hash is not None:  # a commit knows only the hash: see whether the key is among these
            self._key = next((key for key in set(keys) if key_hash(key) == self._hash), self)
            self._hash = None if self._key is not self else self._hash
        first, first_key, clock, clocks = self.first, self._key, self.clock, []
        for stamp, key in zip(stamps, keys, strict=True):
            if stamp > clock:
                if key == first_key:
                    first = max(first, stamp)
                elif stamp > first:
                    clock, first, first_key = first, stamp, key
                else:
                    clock = stamp
            clocks.append(clock)
        if first_key is not self._key:
            self._hash = None
        self.first, self._key, self.clock = first, first_key, clock
        return clocks


def key_hash(key: bytes | None) -> str:
    """Return what a commit keeps of a key."""
    return "none" if key is None else blake2b(key, digest_size=8).hexdigest()


@dataclass(slots=True)
class RestartPosition:
    """A position that a commit may point to, and the floor up to which the records from there on hold their ids."""

    position: LogPosition
    held_until: int = NEVER


class LogClock:
    """Where a log was read to, what its clock says, and from where it would have to be read again.

    ``floor`` is the running maximum of clock − H: a list shown before it is closed to this log. It never falls, so a
    longer H after a restart does not bring back what was forgotten under the shorter one. A record's own floor also
    counts its own stamp, which moves nothing but its own verdict: so silence that has let lists be forgotten does not
    need to be known to judge what comes after it, in replay for one. Where it does matter (a stamp from before the
    silence, a longer H since) a mark is kept.
    """

    def __init__(self, part: LogPart, eras: LogEras) -> None:
        self.offset = part.restart.offset  # of the next record
        self.processed = part.processed  # before a restart: read again silently up to here
        self.floor = self._plain = part.restart.floor  # with, and without what silence has made of it
        self.top = TopStamps(part.restart.first, part.restart.first_key, part.restart.clock)
        self.eras, self.marks = eras, list(part.marks)
        self._horizons = np.array([rules.horizon_ms for rules in eras.rules], np.int64)
        self._restarts = [RestartPosition(part.restart)]
        self._since = 0  # records since the last of these

    @property
    def rebuilt(self) -> bool:
        """Whether all that was processed before a restart has been read again."""
        return self.offset >= self.processed

    @property
    def clock(self) -> int:
        """The log's clock."""
        return self.top.clock

    @property
    def latest(self) -> int:
        """What time it is at least, by this log: its clock, or the only stamp while there is one key."""
        return self.clock if self.clock > NEVER else self.top.first

    def advance(self, offsets: Ints, stamps: Ints, keys: Sequence[bytes | None], next_offset: int) -> Times:
        """Pass over records and return their times."""
        if not len(offsets):
            self.offset = max(self.offset, next_offset)
            return Times(offsets, offsets, offsets, offsets)
        if offsets[0] < self.offset or (np.diff(offsets) <= 0).any():
            raise ValueError(f"offsets must rise from {self.offset}, got {offsets[0]} to {offsets[-1]}")
        stamps = np.clip(stamps, NEVER, LATEST)
        clocks, tops = self._clocks(offsets, stamps, keys)
        horizon = self._horizons[np.maximum(np.searchsorted(self.eras.starts, offsets, side="right") - 1, 0)]
        floors = clocks - horizon
        for mark in self.marks:
            _raise(floors, int(np.searchsorted(offsets, mark.offset)), mark.floor)
        floors = np.maximum.accumulate(np.maximum(floors, self._plain))
        own = np.maximum(floors, stamps - horizon)
        if self.floor > own.min():
            at = int(np.argmax(own < self.floor))
            self.marks.append(FloorMark(int(offsets[at]), self.floor))
            _raise(floors, at, self.floor)
            _raise(own, at, self.floor)
        for index, top in tops.items():
            before = index - 1
            position = LogPosition(int(offsets[before]) + 1, int(clocks[before]), int(floors[before]), *top)
            self._restarts.append(RestartPosition(position))
        self.offset, self._plain = next_offset, int(floors[-1])
        self.floor = max(self.floor, self._plain)
        return Times(offsets, stamps, clocks, own)

    def _clocks(
        self, offsets: Ints, stamps: Ints, keys: Sequence[bytes | None]
    ) -> tuple[Ints, dict[int, tuple[int, str]]]:
        """Return the clock at each record, and what is on top before every 256th or so: a commit may point there."""
        if self._since >= EVERY:
            self._note_end()
        clocks, tops = list[int](), dict[int, tuple[int, str]]()
        for start in range(0, len(offsets), EVERY):
            if start:
                tops[start] = self.top.first, self.top.first_key
                self._since = 0
            clocks += self.top.clocks(stamps[start : start + EVERY].tolist(), keys[start : start + EVERY])
            self._since += len(clocks) - start
        return np.array(clocks, np.int64), tops

    def _note_end(self) -> None:
        position = LogPosition(self.offset, self.clock, self._plain, self.top.first, self.top.first_key)
        self._restarts.append(RestartPosition(position))
        self._since = 0

    def reached(self, offsets: Ints, until: Ints) -> None:
        """Note until what floor each of some records, which were passed just now, holds its id."""
        restarts = self._restarts[self._index(int(offsets[0])) :]
        cuts = np.searchsorted(offsets, [restart.position.offset for restart in restarts]).tolist()
        for restart, start, stop in zip(restarts, cuts, [*cuts[1:], len(offsets)], strict=True):
            if start < stop:
                restart.held_until = max(restart.held_until, int(until[start:stop].max()))

    def idle_at(self, clock_ms: int) -> None:
        """Note that the next record, whenever it comes, will have at least this time stamp."""
        if len(self.marks) < MOST_MARKS:
            clock_ms = max(NEVER, min(clock_ms, LATEST))
            self.floor = max(self.floor, clock_ms - self.eras.at(self.offset).horizon_ms)

    def _index(self, offset: int) -> int:
        return max(0, bisect_right(self._restarts, offset, key=lambda restart: restart.position.offset) - 1)

    def standing(self, needed_from: int, *, with_held_ids: bool = False) -> LogPart:
        """Return where the log stands, to be read again from the last position at or before ``needed_from``.

        With the ids that are held there it is an earlier one, from which each of them is known to be held. One step
        back is enough: whether an impression holds its id does not depend on those before it.
        """
        if needed_from >= self.offset and self._restarts[-1].position.offset < self.offset:
            self._note_end()
        index = last = self._index(needed_from)
        if with_held_ids:
            floor = self.floor if needed_from >= self.offset else self._restarts[last].position.floor
            index = next((i for i in range(last) if self._restarts[i].held_until >= floor), last)
        del self._restarts[:index]
        restart = self._restarts[0].position
        self.marks = [mark for mark in self.marks if mark.offset >= restart.offset]
        return LogPart(restart, self.offset, self.floor, self.eras.since(restart.offset), list(self.marks))


def _raise(floors: Ints, start: int, floor: int) -> None:
    np.maximum(floors[start:], floor, out=floors[start:])
