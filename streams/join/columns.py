"""The open lists of one bucket in columns: their rows with all clicks so far.

A list costs its contexts (4 d bytes a position), item ids and, once it is clicked, rewards (8 bytes each a position),
56 bytes in other columns, and in the join its id and a dictionary entry. Slots are reused, and columns grow in place by
a fixed step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from schemas.event_columns import ImpressionColumns
from streams.join.batches import ListNote, Lists
from streams.join.timer_wheel import Slots, TimerWheel

NO_CLICK = -1.0  # the reward of a position that nobody has clicked
NONE = np.iinfo(np.int64).max  # the offset of nothing: larger than any, so that a minimum passes over it
_FIRST, _STEP = 64, 4_096  # slots at first, and slots or rows of clicks added at most at once
_FEW, _ROOMY = 1_024, 4  # slots that are never given back, and times as many as lists are
_COLUMNS = (
    *("items", "contexts", "click_row", "shown_at", "held_ms", "offset", "size", "extent", "rendered", "session"),
    *("epoch", "ranked_by", "emitted"),
)
MOST_HELD_MS = (1 << 32) - 1  # 49 days

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]


class ClickRows:
    """What is known of a list's clicks, in a row for each that has had one; row 0 is that of all other lists.

    >>> clicks = ClickRows(positions=2)
    >>> [row] = clicks.reserve(1)
    >>> clicks.largest(np.array([row, row]), np.array([2, 2]), np.array([0.5, 0.2]))
    >>> clicks.rewards[[0, row]].tolist()
    [[-1.0, -1.0], [-1.0, 0.5]]
    """

    def __init__(self, *, positions: int) -> None:
        self.rewards = np.full((1, positions), NO_CLICK)
        self.first = np.full(1, NONE)  # lowest offset of a click in the list
        self.last = np.full(1, -1)  # highest offset of a click that it decided, refused ones too
        self._free = np.empty(0, np.int32)

    def largest(self, rows: Rows, positions: Ints, rewards: NDArray[np.float64]) -> None:
        """Let positions have these rewards, or the larger ones that they have."""
        np.maximum.at(self.rewards, (rows, positions - 1), rewards)

    def reserve(self, count: int) -> Rows:
        """Return rows for so many lists that have got their first click."""
        if count > len(self._free):
            old, more = len(self.first), max(count - len(self._free), min(_STEP, len(self.first)))
            for column in (self.rewards, self.first, self.last):
                column.resize((old + more, *column.shape[1:]), refcheck=False)
            new = np.arange(old, old + more, dtype=np.int32)
            self._clear(new)
            self._free = np.concatenate((self._free, new))
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def release(self, rows: Rows) -> None:
        """Take back rows, those of lists without a click among them."""
        clicked = rows[rows > 0]
        if len(clicked):
            self._clear(clicked)
            self._free = np.concatenate((clicked, self._free))

    def _clear(self, rows: Rows) -> None:
        self.rewards[rows], self.first[rows], self.last[rows] = NO_CLICK, NONE, -1

    def compact(self, rows: Rows) -> Rows:
        """Keep no rows but these, give the memory of others back, and return where each is now."""
        kept = np.concatenate((np.zeros(1, np.int32), rows))
        self.rewards, self.first, self.last = self.rewards[kept], self.first[kept], self.last[kept]
        self._free = np.empty(0, np.int32)
        return np.arange(1, len(kept), dtype=np.int32)


class BucketColumns:
    """Lists that are remembered, each in a slot, until the log's clocks have passed their horizon."""

    def __init__(self, *, positions: int, dim: int, cell_ms: int) -> None:
        self.positions, self.dim = positions, dim
        self.items = np.empty((0, positions), np.int64)
        self.contexts = np.empty((0, positions, dim), np.float32)
        self.click_row = np.empty(0, np.int32)  # 0 while nobody has clicked
        self.ids = np.empty(0, np.object_)
        self.notes: dict[int, ListNote] = {}  # by slot, where an impression says more than its rows
        self.shown_at = np.empty(0, np.int64)
        self.held_ms = np.empty(0, np.uint32)  # how long after it was shown its id is held: until the floor is there
        self.offset = np.empty(0, np.int64)
        self.size = np.empty(0, np.uint8)
        self.extent = np.empty(0, np.uint8)  # positions that enter the sample: rendered, or down to the last click
        self.rendered = np.empty(0, np.uint8)
        self.session = np.empty(0, np.uint32)  # 32 bits of its hash
        self.epoch = np.empty(0, np.int32)
        self.ranked_by = np.empty(0, np.int64)
        self.emitted = np.empty(0, np.bool_)
        self._clicks = ClickRows(positions=positions)
        self.to_close = TimerWheel(cell_ms=cell_ms)
        self.to_forget = TimerWheel(cell_ms=cell_ms)
        self._free, self._free_slots = np.empty(0, np.int32), 0  # a stack, and its height

    def __len__(self) -> int:
        return len(self.shown_at) - self._free_slots

    def reserve(self, count: int) -> Slots:
        """Return ``count`` slots to fill."""
        if self._free_slots < count:
            self._grow(max(count - self._free_slots, min(_STEP, max(_FIRST, len(self.shown_at)))))
        self._free_slots -= count
        return self._free[self._free_slots : self._free_slots + count].copy()

    def _grow(self, more: int) -> None:
        old = len(self.shown_at)
        self._resize(old + more)
        self.offset[old:] = NONE
        self._free[self._free_slots : self._free_slots + more] = np.arange(old, old + more)
        self._free_slots += more

    def _resize(self, slots: int) -> None:
        for name in _COLUMNS:
            column: NDArray[Any] = getattr(self, name)
            column.resize((slots, *column.shape[1:]), refcheck=False)  # in place: the system moves pages, not bytes
        old = len(self.ids)
        self.ids[slots:] = None  # numpy would not let go of them
        self.ids.resize(slots, refcheck=False)
        self.ids[old:] = None
        self._free.resize(slots, refcheck=False)

    def roomy(self, lists: int) -> bool:
        """Return whether ``compact`` gives back much, also for who must then rename ``lists`` of all buckets."""
        return len(self.shown_at) > max(_FEW, _ROOMY * len(self), lists // _ROOMY)

    def compact(self) -> Slots:
        """Move the lists together and give the other slots' memory back; return the new slot of each old one."""
        kept = np.flatnonzero(self.offset != NONE).astype(np.int32)
        moved = np.full(len(self.shown_at), -1, np.int32)
        moved[kept] = np.arange(len(kept), dtype=np.int32)
        for name in (*_COLUMNS, "ids"):
            column: NDArray[Any] = getattr(self, name)
            column[: len(kept)] = column[kept]
        self.notes = {int(moved[slot]): note for slot, note in self.notes.items()}
        self._resize(len(kept))
        clicked = np.flatnonzero(self.click_row)
        self.click_row[clicked] = self._clicks.compact(self.click_row[clicked])
        self._free_slots = 0
        for wheel in (self.to_close, self.to_forget):
            wheel.rename(moved)
        return moved

    def put(
        self,
        slots: Slots,
        lists: ImpressionColumns,
        *,
        notes: Mapping[int, ListNote],
        session: Ints,
        until: Ints,
        offset: Ints,
    ) -> None:
        """Fill ``slots`` with lists, some of which have ``notes``, by index."""
        size, shown_at = lists.size, lists.shown_at
        if (size == self.positions).all():
            self.items[slots] = lists.items.reshape(-1, self.positions)
            self.contexts[slots] = lists.contexts.reshape(len(slots), self.positions, self.dim)  # d may be 0
        else:
            numbers, places = np.nonzero(np.arange(self.positions) < size[:, None])
            self.items[slots[numbers], places] = lists.items
            self.contexts[slots[numbers], places] = lists.contexts.reshape(len(numbers), self.dim)
        self.click_row[slots] = 0
        self.ids[slots] = lists.ids
        for index, note in notes.items():
            self.notes[int(slots[index])] = note
        self.shown_at[slots], self.held_ms[slots], self.offset[slots] = shown_at, until - shown_at, offset
        self.session[slots] = session
        self.size[slots] = size
        self.extent[slots] = self.rendered[slots] = lists.rendered
        self.epoch[slots], self.ranked_by[slots] = lists.epoch, lists.ranked_by
        self.emitted[slots] = False

    def release(self, slots: Slots) -> None:
        """Empty ``slots`` for others to use."""
        self.ids[slots] = None
        if self.notes:
            for slot in slots.tolist():
                self.notes.pop(slot, None)
        self._clicks.release(self.click_row[slots])
        self.click_row[slots] = 0
        self.offset[slots] = NONE
        self._free[self._free_slots : self._free_slots + len(slots)] = slots
        self._free_slots += len(slots)

    def shown(self, slots: Slots) -> Ints:
        """Return when lists were shown."""
        return self.shown_at[slots]

    def until(self, slots: Slots | int) -> Any:
        """Return the floor that the log must pass before the ids of lists are free again."""
        return self.shown_at[slots] + self.held_ms[slots].astype(np.int64)

    def content(self, slot: int) -> tuple[Any, ...]:
        """Return what makes a list the same as another one: all but its clicks."""
        rows = slice(int(self.size[slot]))
        columns = (self.size, self.rendered, self.session, self.shown_at, self.epoch, self.ranked_by)
        whole = tuple(column[slot].item() for column in columns)
        return (*whole, self.notes.get(slot), self.items[slot, rows].tobytes(), self.contexts[slot, rows].tobytes())

    def reward(self, slots: Slots, positions: Ints) -> NDArray[np.float64]:
        """Return the reward of a position of each list, NO_CLICK where nobody clicked."""
        return self._clicks.rewards[self.click_row[slots], positions - 1]

    def first_click(self) -> int:
        """Return the lowest offset of a click that any list has taken, or NONE."""
        return int(self._clicks.first.min())

    def last_click(self, slots: Slots) -> Ints:
        """Return the highest offset of a click that each list has decided, -1 for none."""
        return self._clicks.last[self.click_row[slots]]

    def decide(self, slots: Slots, offsets: Ints) -> None:
        """Note clicks that lists take or refuse."""
        bare = np.unique(slots[self.click_row[slots] == 0])
        self.click_row[bare] = self._clicks.reserve(len(bare))
        np.maximum.at(self._clicks.last, self.click_row[slots], offsets)

    def click(self, slots: Slots, positions: Ints, rewards: NDArray[np.float64], offsets: Ints) -> Ints:
        """Take clicks that were noted; a position's largest reward stays. Return which were the first on theirs."""
        fresh = np.flatnonzero(self.reward(slots, positions) == NO_CLICK)
        cells = slots[fresh].astype(np.int64) * self.positions + positions[fresh]
        first: Ints = fresh[np.unique(cells, return_index=True)[1]]
        self._clicks.largest(self.click_row[slots], positions, rewards)
        np.maximum.at(self.extent, slots, positions.astype(np.uint8))
        np.minimum.at(self._clicks.first, self.click_row[slots], offsets)
        return first

    def lists(self, slots: Slots) -> Lists:
        """Return the lists in ``slots`` as they stand: the rows that were rendered or clicked, with last clicks."""
        size, rewards = self.extent[slots], self._clicks.rewards[self.click_row[slots]]
        np.maximum(rewards, 0.0, out=rewards)
        last_click = previous_click(rewards > 0).astype(np.uint8)
        position = np.broadcast_to(np.arange(1, self.positions + 1, dtype=np.uint8), last_click.shape)
        rows: list[Any] = [self.items[slots], position, last_click, rewards, self.contexts[slots]]
        if (size == self.positions).all():
            rows = [column.reshape(position.size, *column.shape[2:]) for column in rows]
        else:
            shown = position <= size[:, None]
            rows = [column[shown] for column in rows]
        for column in (self.ids, self.extent, self.shown_at, self.offset, self.epoch, self.ranked_by):
            rows.append(column[slots])
        notes = np.full(len(slots), None)
        for index, slot in enumerate(slots.tolist() if self.notes else ()):
            notes[index] = self.notes.get(slot)
        rows.append(notes)
        return Lists(*rows)
