"""The open lists of one bucket in columns: their rows with all clicks so far.

A list costs its contexts (4 d bytes a position), item ids and, once it is clicked, rewards (8 bytes each a position),
60 bytes in other columns, and in the join its id, its session and a dictionary entry. Slots are reused, and columns
grow in place by a fixed step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from schemas.event_columns import ImpressionColumns
from streams.join.batches import ListNote, Lists

NO_CLICK = -1.0  # the reward of a position that nobody has clicked
NONE = np.iinfo(np.int64).max  # the offset of nothing: larger than any, so that a minimum passes over it
_FIRST, _STEP = 64, 4_096  # slots at first, and slots or rows of clicks added at most at once
_FEW, _ROOMY = 1_024, 4  # slots that are never given back, and times as many as lists are
_COLUMNS = (
    "items",
    "contexts",
    "click_row",
    "shown_at",
    "held_ms",
    "offset",
    "size",
    "extent",
    "rendered",
    "epoch",
    "ranked_by",
    "emitted",
)
_TEXTS = ("ids", "sessions")
MOST_HELD_MS = (1 << 32) - 1  # 49 days

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
TimesOf = Callable[[Slots], Ints]


class TimerWheel:
    """Slots in cells of time: adding and taking cost per batch and cell, not per slot.

    >>> shown_at = np.array([5_000, 1_000, 3_000])
    >>> due = TimerWheel(cell_ms=1_000)
    >>> due.add(np.array([0, 1, 2], np.int32), shown_at)
    >>> due.pop_before(3_500, lambda slots: shown_at[slots])
    array([1, 2], dtype=int32)
    """

    def __init__(self, *, cell_ms: int) -> None:
        self._cell_ms = max(1, cell_ms)
        self._cells: dict[int, list[Slots]] = {}
        self._order: list[int] = []  # a heap of the cells' numbers

    def add(self, slots: Slots, times: NDArray[np.int64]) -> None:
        """Add ``slots``, due at ``times``."""
        if not len(slots):
            return
        cells = times // self._cell_ms
        if cells[0] == cells[-1] and (cells == cells[0]).all():
            self._put(int(cells[0]), slots)
            return
        order = np.argsort(cells, kind="stable")
        cells, slots = cells[order], slots[order]
        starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(cells)], strict=True):
            self._put(int(cells[start]), slots[start:stop])

    def _put(self, cell: int, slots: Slots) -> None:
        if cell not in self._cells:
            self._cells[cell] = []
            heappush(self._order, cell)
        self._cells[cell].append(slots)

    def rename(self, moved: Slots) -> None:
        """Let every slot be the one that ``moved`` has at its index."""
        self._cells = {cell: [moved[slots] for slots in parts] for cell, parts in self._cells.items()}

    def before(self, limit: int, times: TimesOf) -> Slots:
        """Return the slots that ``pop_before`` would, and let them stay."""
        last = limit // self._cell_ms
        due = [slots for cell in self._order if cell <= last for slots in self._cells[cell]]
        slots = np.concatenate(due) if due else np.empty(0, np.int32)
        return slots[times(slots) < limit]

    def pop_before(self, limit: int, times: TimesOf) -> Slots:
        """Remove and return the slots whose time is below ``limit``."""
        gone: list[Slots] = []
        last = limit // self._cell_ms
        while self._order and self._order[0] < last:
            gone.extend(self._cells.pop(heappop(self._order)))
        if self._order and self._order[0] == last:
            slots = np.concatenate(self._cells[last])
            passed = times(slots) < limit
            gone.append(slots[passed])
            self._cells[last] = [slots[~passed]]
        return np.concatenate(gone) if gone else np.empty(0, np.int32)


class ClickRows:
    """What is known of a list's clicks, in a row for each that has had one; row 0 is that of all other lists.

    >>> clicks = ClickRows(positions=2)
    >>> [row] = clicks.reserve(1)
    >>> clicks.rewards[[0, row]].tolist()
    [[-1.0, -1.0], [-1.0, -1.0]]
    """

    def __init__(self, *, positions: int) -> None:
        self.rewards = np.full((1, positions), NO_CLICK)
        self.first = np.full(1, NONE)  # lowest offset of a click in the list
        self.last = np.full(1, -1)  # highest offset of a click that it decided, refused ones too
        self._free = np.empty(0, np.int32)

    def reserve(self, count: int) -> Slots:
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

    def release(self, rows: Slots) -> None:
        """Take back rows, those of lists without a click among them."""
        clicked = rows[rows > 0]
        if len(clicked):
            self._clear(clicked)
            self._free = np.concatenate((clicked, self._free))

    def _clear(self, rows: Slots) -> None:
        self.rewards[rows], self.first[rows], self.last[rows] = NO_CLICK, NONE, -1

    def compact(self, rows: Slots) -> Slots:
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
        self.ids, self.sessions = np.empty(0, np.object_), np.empty(0, np.object_)
        self.notes: dict[int, ListNote] = {}  # by slot, where an impression says more than its rows
        self.shown_at = np.empty(0, np.int64)
        self.held_ms = np.empty(0, np.uint32)  # how long after it was shown its id is held: until the floor is there
        self.offset = np.empty(0, np.int64)
        self.size = np.empty(0, np.uint8)
        self.extent = np.empty(0, np.uint8)  # positions that enter the sample: rendered, or down to the last click
        self.rendered = np.empty(0, np.uint8)
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
            old = len(self.shown_at)
            more = max(count - self._free_slots, min(_STEP, max(_FIRST, old)))
            self._resize(old + more)
            self.offset[old:] = NONE
            self._free[self._free_slots : self._free_slots + more] = np.arange(old, old + more)
            self._free_slots += more
        self._free_slots -= count
        return self._free[self._free_slots : self._free_slots + count].copy()

    def _resize(self, slots: int) -> None:
        for name in _COLUMNS:
            column: NDArray[Any] = getattr(self, name)
            column.resize((slots, *column.shape[1:]), refcheck=False)  # in place: the system moves pages, not bytes
        for texts in (self.ids, self.sessions):
            old = len(texts)
            texts[slots:] = None  # numpy would not let go of them
            texts.resize(slots, refcheck=False)
            texts[old:] = None
        self._free.resize(slots, refcheck=False)

    def roomy(self, lists: int) -> bool:
        """Return whether ``compact`` gives back much, also for who must then rename ``lists`` of all buckets."""
        return len(self.shown_at) > max(_FEW, _ROOMY * len(self), lists // _ROOMY)

    def compact(self) -> Slots:
        """Move the lists together and give the other slots' memory back; return the new slot of each old one."""
        kept = np.flatnonzero(self.offset != NONE).astype(np.int32)
        moved = np.full(len(self.shown_at), -1, np.int32)
        moved[kept] = np.arange(len(kept), dtype=np.int32)
        for name in (*_COLUMNS, *_TEXTS):
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

    def put(self, lists: ImpressionColumns, notes: Mapping[int, ListNote], until: Ints, offset: Ints) -> Slots:
        """Put lists, some of which have ``notes`` by index, into slots, and return these."""
        slots = self.reserve(len(offset))
        size, shown_at = lists.size, lists.shown_at
        if (size == self.positions).all():
            self.items[slots] = lists.items.reshape(-1, self.positions)
            self.contexts[slots] = lists.contexts.reshape(len(slots), self.positions, self.dim)  # d may be 0
        else:
            numbers, rows = np.nonzero(np.arange(self.positions) < size[:, None])
            self.items[slots[numbers], rows] = lists.items
            self.contexts[slots[numbers], rows] = lists.contexts.reshape(len(numbers), self.dim)
        self.click_row[slots] = 0
        self.ids[slots], self.sessions[slots] = lists.ids, lists.sessions
        for index, note in notes.items():
            self.notes[int(slots[index])] = note
        self.shown_at[slots], self.held_ms[slots], self.offset[slots] = shown_at, until - shown_at, offset
        self.size[slots] = size
        self.extent[slots] = self.rendered[slots] = lists.rendered
        self.epoch[slots], self.ranked_by[slots] = lists.epoch, lists.ranked_by
        self.emitted[slots] = False
        return slots

    def release(self, slots: Slots) -> None:
        """Empty ``slots`` for others to use."""
        self.ids[slots] = self.sessions[slots] = None
        if self.notes:
            for slot in slots.tolist():
                self.notes.pop(slot, None)
        self._clicks.release(self.click_row[slots])
        self.click_row[slots] = 0
        self.offset[slots] = NONE
        self._free[self._free_slots : self._free_slots + len(slots)] = slots
        self._free_slots += len(slots)

    def until(self, slots: Slots | int) -> Any:
        """Return the floor that the log must pass before the ids of lists are free again."""
        return self.shown_at[slots] + self.held_ms[slots].astype(np.int64)

    def content(self, slot: int) -> tuple[Any, ...]:
        """Return what makes a list the same as another one: all but its clicks."""
        rows = slice(int(self.size[slot]))
        whole = (self.size, self.rendered, self.shown_at, self.epoch, self.ranked_by, self.sessions)
        by_row = (self.items, self.contexts)
        return *(column[slot] for column in whole), self.notes.get(slot), *(c[slot, rows].tobytes() for c in by_row)

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
        rows = self.click_row[slots]
        np.maximum.at(self._clicks.rewards, (rows, positions - 1), rewards)
        np.minimum.at(self._clicks.first, rows, offsets)
        np.maximum.at(self.extent, slots, positions.astype(np.uint8))
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
        whole = (self.ids, self.extent, self.shown_at, self.offset, self.epoch, self.ranked_by)
        notes = np.full(len(slots), None)
        for index, slot in enumerate(slots.tolist() if self.notes else ()):
            notes[index] = self.notes.get(slot)
        rows += [*(column[slots] for column in whole), notes]
        return Lists(*rows)
