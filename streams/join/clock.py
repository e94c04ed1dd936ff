"""The clock of one log, from its record time stamps; the oldest shown-at that it still serves; idle time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.join.log_part import NEVER, FloorMark, LogPart, LogPosition, RuleEra
from streams.join.rules import LogEras

LATEST = 1 << 61  # what is stamped later counts as stamped then: no sum of times overflows
EVERY = 256  # records between two places that a commit may point to
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
        first, key, clock, found = self.first, self._key, self.clock, []
        for stamp, of in zip(stamps, keys, strict=True):
            if stamp > clock:
                if of == key:
                    first = max(first, stamp)
                elif stamp > first:
                    clock, first, key = first, stamp, of
                else:
                    clock = stamp
            found.append(clock)
        if key is not self._key:
            self._hash = None
        self.first, self._key, self.clock = first, key, clock
        return found

    def largest(self, stamps: Ints) -> Ints:
        """Pass over records as the first version did, which took the largest stamp for the clock."""
        clocks = np.maximum.accumulate(np.maximum(stamps, self.clock))
        self.first = self.clock = int(clocks[-1])
        self._hash, self._key = "", self
        return clocks


def key_hash(key: bytes | None) -> str:
    """Return what a commit keeps of a key."""
    return "none" if key is None else blake2b(key, digest_size=8).hexdigest()


class LogClock:
    """Where a log was read to, what its clock says, and from where it would have to be read again.

    ``floor`` is the running maximum of clock − H: a list shown before it is closed to this log. It never falls, so a
    longer H after a restart does not bring back what was forgotten under the shorter one. A record's own floor also
    counts its own stamp, which moves nothing but its own verdict: so silence that has let lists be forgotten does not
    need to be known to judge what comes after it, in replay for one. Where it does matter (a stamp from before the
    silence, a longer H since) a mark is kept.
    """

    def __init__(self, part: LogPart, eras: LogEras) -> None:
        self.offset = part.place.offset  # of the next record
        self.floor = self._plain = part.place.floor  # with, and without what silence has made of it
        self.top = TopStamps(part.place.first, part.place.first_key, part.place.clock)
        self.eras, self.marks = eras, list(part.marks)
        self._horizons = np.array([rules.horizon_ms for rules in eras.rules], np.int64)
        self._first_below = eras.first_below
        self._places = [part.place]
        self._reach = [NEVER]  # how long the records from each place on hold their ids
        self._since = 0  # records since the last place

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
        for index, (first, first_key) in tops.items():
            before = index - 1
            self._note_place(
                LogPosition(int(offsets[before]) + 1, int(clocks[before]), int(floors[before]), first, first_key)
            )
        self.offset, self._plain = next_offset, int(floors[-1])
        self.floor = max(self.floor, self._plain)
        return Times(offsets, stamps, clocks, own)

    def _clocks(
        self, offsets: Ints, stamps: Ints, keys: Sequence[bytes | None]
    ) -> tuple[Ints, dict[int, tuple[int, str]]]:
        """Return the clock at each record, and what is on top before every 256th or so: a commit may point there."""
        if self._since >= EVERY:
            self._note_place(self._here())
        old, found, tops = int(np.searchsorted(offsets, self._first_below)), list[Ints](), dict[int, tuple[int, str]]()
        starts = sorted({*range(0, len(offsets), EVERY), old} - {len(offsets)})
        for start, stop in zip(starts, [*starts[1:], len(offsets)], strict=True):
            if start:
                tops[start] = self.top.first, self.top.first_key
                self._since = 0
            self._since += stop - start
            if stop <= old:
                found.append(self.top.largest(stamps[start:stop]))
            else:
                found.append(np.array(self.top.clocks(stamps[start:stop].tolist(), keys[start:stop]), np.int64))
        return np.concatenate(found), tops

    def _here(self) -> LogPosition:
        return LogPosition(self.offset, self.clock, self._plain, self.top.first, self.top.first_key)

    def _note_place(self, place: LogPosition) -> None:
        self._places.append(place)
        self._reach.append(NEVER)
        self._since = 0 if place.offset == self.offset else self._since

    def reached(self, offsets: Ints, until: Ints) -> None:
        """Note until what floor each of some records, which were passed just now, holds its id."""
        place = self._index(int(offsets[0]))
        while place < len(self._places):
            last = place + 1 == len(self._places)
            stop = len(offsets) if last else int(np.searchsorted(offsets, self._places[place + 1].offset))
            start = int(np.searchsorted(offsets, self._places[place].offset))
            if start < stop:
                self._reach[place] = max(self._reach[place], int(until[start:stop].max()))
            place += 1

    def idle_at(self, clock_ms: int) -> None:
        """Note that the next record, whenever it comes, will have at least this time stamp."""
        if len(self.marks) < MOST_MARKS:
            clock_ms = max(NEVER, min(clock_ms, LATEST))
            self.floor = max(self.floor, clock_ms - self.eras.at(self.offset).horizon_ms)

    def _index(self, offset: int) -> int:
        return max(0, bisect_right(self._places, offset, key=lambda place: place.offset) - 1)

    def place_before(self, offset: int) -> LogPosition:
        """Return the last known place at or before ``offset``, and forget those before it."""
        if offset >= self.offset and self._places[-1].offset < self.offset:
            self._note_place(self._here())
        self._drop(self._index(offset))
        return self._places[0]

    def place_to_judge_from(self, offset: int) -> LogPosition:
        """Return the place to read from, so that every id that is held at ``offset`` or later is known to be so.

        One step back is enough: whether an impression holds its id does not depend on those before it. Only the first
        version's does, and its commit points far enough back.
        """
        if offset >= self.offset and self._places[-1].offset < self.offset:
            self._note_place(self._here())
        if offset < self._first_below:
            return self._places[0]
        last = self._index(offset)
        floor, needed = self.floor if offset >= self.offset else self._places[last].floor, 0
        while needed < last and self._reach[needed] < floor:
            needed += 1
        self._drop(needed)
        return self._places[0]

    def _drop(self, places: int) -> None:
        del self._places[:places], self._reach[:places]
        self.marks = [mark for mark in self.marks if mark.offset >= self._places[0].offset]

    def standing(self, place: LogPosition) -> LogPart:
        """Return where the log stands, to be read again from ``place``."""
        era = max(0, bisect_right(self.eras.starts, place.offset) - 1)
        named = zip(self.eras.starts[era:], self.eras.rules[era:], strict=True)
        eras = [RuleEra(offset, rules.hash) for offset, rules in named]
        return LogPart(place, self.offset, self.floor, eras, list(self.marks))


def _raise(floors: Ints, start: int, floor: int) -> None:
    np.maximum(floors[start:], floor, out=floors[start:])


class IdleTime:
    """What time it must be by now: the latest that was heard, and the time since by a clock that only runs forward.

    A worker's wall clock may be a day ahead, and what it says would stay in the commits. Logs without any stamp have no
    time: ``now_ms`` is NEVER then, which closes nothing.

    >>> idle = IdleTime()
    >>> idle.heard(1_000_000, at_s=5.0)
    >>> idle.heard(1_000_500, at_s=9.0)
    >>> idle.now_ms(at_s=10.0)
    1005000
    """

    def __init__(self) -> None:
        self._heard_ms, self._at_s = NEVER, 0.0

    def heard(self, time_ms: int, *, at_s: float) -> None:
        """Note that it is ``time_ms`` at least (see ``SessionJoin.time_ms``), when a monotonic clock says ``at_s``."""
        if time_ms > self.now_ms(at_s=at_s):
            self._heard_ms, self._at_s = time_ms, at_s

    def now_ms(self, *, at_s: float) -> int:
        """Return what time it is when a monotonic clock says ``at_s``."""
        since_ms = int((at_s - self._at_s) * 1000) if self._heard_ms > NEVER else 0
        return self._heard_ms + since_ms
