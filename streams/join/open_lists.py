"""What is remembered of one partition: accepted lists with their clicks, from which samples and corrections come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.event_columns import ImpressionColumns
from streams.events import OfferedClicks, first_click_delay_ms, judge_offers, list_bytes
from streams.join import batches
from streams.join.batches import ListNote
from streams.join.clicks import Clicks
from streams.join.columns import NONE, BucketColumns, Slots
from streams.join.commit import Ledger
from streams.join.outbox import Outbox
from streams.join.past_lists import Forgotten, HeldIds, RestartPoints
from streams.join.rules import JoinRules

Ints = NDArray[np.int64]
REFUSED = -1  # instead of the number of a list's columns


class Shown(NamedTuple):
    """Impressions in columns, in the order of their log."""

    lists: ImpressionColumns
    notes: Mapping[int, ListNote]  # what some say besides, by index
    columns: Ints  # the number of the columns that each belongs to, or REFUSED
    offset: Ints
    floor: Ints
    until: Ints  # the floor up to which each holds its id


class RefusedClick(NamedTuple):
    """A click that its list refuses."""

    list_offset: int
    number: int  # among those that were offered
    reason: str


class OpenLists:
    """Every list that may still change, by impression id; a list's code is its slot and the number of its columns.

    Lists of one bucket share columns as long as its limits are the same; a bucket with other limits has others, so that
    lists of both eras are corrected and written as what they were accepted for.
    """

    def __init__(self, eras: Sequence[JoinRules], *, outbox: Outbox, ledger: Ledger) -> None:
        self._outbox, self._ledger = outbox, ledger
        horizon_ms = max(rules.horizon_ms for rules in eras)
        self._limits = list(dict.fromkeys(limits for rules in eras for limits in rules.accept.limits))
        self._columns = [
            BucketColumns(positions=limits.positions, dim=limits.dim, cell_ms=horizon_ms // 256)
            for limits in self._limits
        ]
        self._known: dict[str, int] = {}  # impression id -> code of the first list that has it
        self._again: dict[str, list[int]] = {}  # codes of the later ones, when an id is used again after its horizon
        self._held = HeldIds()
        self._restart_points = RestartPoints()
        # A click made up to one more horizon after its list's is still told from one without any list.
        self._forgotten = Forgotten(keep_ms=2 * horizon_ms + max(rules.accept.future_ms for rules in eras))

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def columns_of(self, rules: JoinRules) -> Ints:
        """Return the number of the columns for each bucket of some rules, and REFUSED for an unknown one at the end."""
        numbers = {limits: number for number, limits in enumerate(self._limits)}
        return np.array([*(numbers[limits] for limits in rules.accept.limits), REFUSED])

    def hold(self, shown: Shown) -> None:
        """Let impressions hold their ids, whatever else became of them."""
        for name, until in zip(shown.lists.ids, shown.until.tolist(), strict=True):
            self._held.hold(name, until)

    def add(self, shown: Shown) -> tuple[list[int], dict[int, str]]:
        """Take in impressions; return which are new lists, and why others are refused for their id."""
        codes = np.full(len(shown.columns), REFUSED, np.int64)
        for number, columns in enumerate(self._columns):
            members = np.flatnonzero(shown.columns == number)
            if len(members):
                of = dict(enumerate(members.tolist())) if shown.notes else {}
                notes = {at: shown.notes[index] for at, index in of.items() if index in shown.notes}
                slots = columns.put(shown.lists.pick(members), notes, shown.until[members], shown.offset[members])
                codes[members] = slots.astype(np.int64) * len(self._columns) + number
        fresh, refused = self._name(shown, codes)
        shown_at, until = shown.lists.shown_at, shown.until
        if len(fresh) < len(codes):
            codes, shown_at, until = codes[fresh], shown_at[fresh], until[fresh]
        for number, columns in enumerate(self._columns):
            members = np.flatnonzero(codes % len(self._columns) == number)
            slots = (codes[members] // len(self._columns)).astype(np.int32)
            columns.to_forget.add(slots, until[members])
            columns.to_close.add(slots, shown_at[members])
        self._ledger.open += len(fresh)
        return fresh, refused

    def _name(self, shown: Shown, codes: Ints) -> tuple[list[int], dict[int, str]]:
        remember, held, some_held = self._known.setdefault, self._held, len(self._held) > 0
        fresh: list[int] = []
        refused: dict[int, str] = {}
        repeats: dict[int, list[int]] = {}  # by number of their columns: given back together, each costs the same
        for index, (name, code) in enumerate(zip(shown.lists.ids, codes.tolist(), strict=True)):
            if code != REFUSED:
                free = not some_held or held.until(name) < shown.floor[index]
                if free and remember(name, code) == code:  # no other list has this code
                    fresh.append(index)
                    continue
                if free and not self._is_held(name, int(shown.floor[index])):
                    self._again.setdefault(name, []).append(code)
                    fresh.append(index)
                    continue
                if (reason := self._repeated(name, code)) is not None:
                    refused[index] = reason
                repeats.setdefault(code % len(self._columns), []).append(code // len(self._columns))
            held.hold(name, int(shown.until[index]))
            some_held = True
        for number, slots in repeats.items():
            self._columns[number].release(np.array(slots, np.int32))
        return fresh, refused

    def _codes(self, name: str) -> list[int]:
        return [self._known[name], *self._again.get(name, ())] if name in self._known else []

    def _is_held(self, name: str, floor: int) -> bool:
        """Return whether a list in memory holds an id at this floor."""
        return any(columns.until(slot) >= floor for columns, slot in map(self._at, self._codes(name)))

    def _repeated(self, name: str, code: int) -> str | None:
        """Count an impression whose id is held as a duplicate of its list, or return why it is refused."""
        others = self._codes(name)
        if any(self._content(other) == self._content(code) for other in others):
            self._ledger.duplicates += 1
            return None
        if others:
            columns, slot = self._at(others[-1])
            first = columns.offset[slot]
            return f"impression {name!r} has other content than at offset {first}; the lower offset wins"
        return f"impression {name!r} has the id of an earlier one that was refused; the lower offset wins"

    def _content(self, code: int) -> tuple[Any, ...]:
        columns, slot = self._at(code)
        return self._limits[code % len(self._columns)].name, columns.content(slot)

    def _at(self, code: int) -> tuple[BucketColumns, int]:
        slot, number = divmod(code, len(self._columns))
        return self._columns[number], slot

    def click(self, clicks: Clicks) -> tuple[NDArray[np.bool_], list[RefusedClick]]:
        """Give each click to the first list of its id that was open to it; return which found one, and refusals."""
        find = self._known.get
        codes = np.array([find(name, REFUSED) for name in clicks.ids], np.int64)
        taken, refused = np.zeros(len(codes), np.bool_), list[RefusedClick]()
        for number in range(len(self._columns)):
            members = np.flatnonzero((codes >= 0) & (codes % len(self._columns) == number))
            if len(members):
                refused += self._offer(number, members, codes[members], clicks, taken)
        if self._again:
            for index in np.flatnonzero(~taken).tolist():
                for code in self._again.get(clicks.ids[index], ()):
                    if not taken[index]:
                        number = code % len(self._columns)
                        refused += self._offer(number, np.array([index]), np.array([code]), clicks, taken)
        return taken, sorted(refused)

    def _offer(
        self, number: int, indices: Ints, codes: Ints, clicks: Clicks, taken: NDArray[np.bool_]
    ) -> list[RefusedClick]:
        columns, slots = self._columns[number], (codes // len(self._columns)).astype(np.int32)
        shown_at = columns.shown_at[slots]
        is_open = (shown_at >= clicks.floor[indices]) & (shown_at <= clicks.latest[indices])
        indices, slots = indices[is_open], slots[is_open]
        taken[indices] = True
        columns.decide(slots, clicks.offset[indices])
        offered = OfferedClicks(
            clicks.position[indices],
            clicks.reward[indices],
            clicks.session[indices],
            columns.sessions[slots],
            columns.size[slots],
            self._limits[number].reward_scale,
            np.ones(len(indices), np.bool_),
        )
        reasons = judge_offers(offered)
        refused = [
            RefusedClick(int(columns.offset[slots[row]]), int(indices[row]), reason) for row, reason in reasons.items()
        ]
        if refused:
            indices, slots = indices[offered.kept], slots[offered.kept]
        if len(indices):
            self._take(number, slots, clicks, indices)
        return refused

    def _take(self, number: int, slots: Slots, clicks: Clicks, indices: Ints) -> None:
        columns, position, reward = self._columns[number], clicks.position[indices], clicks.reward[indices]
        changed = columns.emitted[slots] & (reward > columns.reward(slots, position))
        corrected = np.unique(slots[changed]) if changed.any() else slots[:0]
        corrected = corrected[np.argsort(columns.offset[corrected])]  # whatever slots they happen to have
        old = columns.lists(corrected)
        first = columns.click(slots, position, reward, clicks.offset[indices])
        self._outbox.delayed(first_click_delay_ms(columns.shown_at[slots[first]], clicks.clicked_at[indices[first]]))
        self._ledger.used += len(first)
        self._ledger.repeated += len(slots) - len(first)
        if len(corrected):
            self._ledger.corrections += len(corrected)
            name = self._limits[number].name
            self._outbox.sample(batches.correct(name, self._outbox.partition, old, columns.lists(corrected)))

    def within(self, before_ms: int, most_bytes: int) -> int:
        """Return a time up to ``before_ms``, before which ``emit`` writes about so many bytes, or one list."""
        due = [
            columns.shown_at[columns.to_close.before(before_ms, columns.shown_at.__getitem__)]
            for columns in self._columns
        ]
        sizes = [list_bytes(limits.positions, limits.dim) for limits in self._limits]
        if sum(size * len(shown_at) for size, shown_at in zip(sizes, due, strict=True)) <= most_bytes:
            return before_ms
        shown_at = np.concatenate(due)
        order = np.argsort(shown_at)
        shown_at = shown_at[order]
        taken = np.cumsum(np.repeat(sizes, [len(times) for times in due])[order])
        return max(int(shown_at[np.searchsorted(taken, most_bytes, side="right")]), int(shown_at[0]) + 1)

    def emit(self, before_ms: int) -> None:
        """Write the lists shown before ``before_ms`` that are not out yet."""
        for limits, columns in zip(self._limits, self._columns, strict=True):
            slots = columns.to_close.pop_before(before_ms, columns.shown_at.__getitem__)
            if len(slots):
                columns.emitted[slots] = True
                self._ledger.open -= len(slots)
                self._ledger.lists += len(slots)
                if not self._outbox.muted:
                    self._outbox.sample(batches.learn(limits.name, self._outbox.partition, columns.lists(slots)))

    def forget(self, before_ms: int, floor: int) -> None:
        """Forget lists that hold their id until before ``before_ms``, and are out; free other ids by ``floor``."""
        self._held.release(floor)
        for number, columns in enumerate(self._columns):
            slots = columns.to_forget.pop_before(before_ms, columns.until)
            if not len(slots):
                continue
            for name, slot in zip(columns.ids[slots].tolist(), slots.tolist(), strict=True):
                if name in self._again:
                    others = [self._known[name], *self._again.pop(name)]
                    others.remove(slot * len(self._columns) + number)
                    self._known[name] = others.pop(0)
                    if others:
                        self._again[name] = others
                else:
                    del self._known[name]
            self._forgotten.add(columns.ids[slots].tolist(), int(columns.shown_at[slots].max()))
            self._restart_points.forget(columns.last_click(slots), columns.offset[slots])
            columns.release(slots)
            if columns.roomy(len(self._known)):
                self._compact(number)

    def _compact(self, number: int) -> None:
        """Give back the memory that columns had at a peak; the codes of their lists change."""
        moved, step = self._columns[number].compact().tolist(), len(self._columns)

        def renamed(code: int) -> int:
            slot, columns = divmod(code, step)
            return moved[slot] * step + columns if columns == number else code

        self._known = {name: renamed(code) for name, code in self._known.items()}
        self._again = {name: list(map(renamed, codes)) for name, codes in self._again.items()}

    def knew(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each id whether a list of it is remembered, or was until not long ago."""
        return self._forgotten.knows(ids) | np.fromiter((name in self._known for name in ids), np.bool_, len(ids))

    def first_click(self) -> int:
        """Return the lowest offset of a click that a remembered list has taken."""
        return min(columns.first_click() for columns in self._columns)

    def first_list(self, first_click: int, otherwise: int) -> int:
        """Return the lowest offset of a list that is needed, when clicks are read again from ``first_click`` on."""
        remembered = min(int(columns.offset.min(initial=NONE)) for columns in self._columns)
        return self._restart_points.first_list(min(remembered, otherwise), first_click)
