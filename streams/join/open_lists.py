"""Lists that may still get clicks, in memory: what becomes a sample, and what a late click corrects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schemas.records import Impression
from streams.events import Acceptance, list_bytes
from streams.join import batches
from streams.join.clicks import Clicks
from streams.join.columns import NO_CLICK, NONE, BucketColumns
from streams.join.commit import Frozen
from streams.join.eras import RuleEras
from streams.join.forgotten import Forgotten
from streams.join.ledger import Ledger
from streams.join.outbox import Outbox
from streams.join.restart_points import RestartPoints
from streams.join.timer_wheel import Slots

Ints = NDArray[np.int64]


@dataclass(slots=True)
class RuleChange:
    """What other rules have closed or refused of what was open."""

    lists: dict[int, str] = field(default_factory=dict)  # slots among the closed lists, with their bucket
    late: list[tuple[int, int]] = field(default_factory=list)  # clicks on them: slot and position
    refused: list[tuple[int, int, int]] = field(default_factory=list)  # clicks: bucket, slot, position


class OpenLists:
    """Every list that may still change, by impression id; a list's code is its slot and the number of its bucket."""

    def __init__(
        self,
        accept: Acceptance,
        *,
        horizon_ms: int,
        frozen: Frozen,
        past: RuleEras,
        outbox: Outbox,
        ledger: Ledger,
        clicks_topic: str,
    ) -> None:
        self._accept, self._frozen, self._past, self._outbox, self._ledger = accept, frozen, past, outbox, ledger
        self._clicks_topic = clicks_topic
        cell_ms = horizon_ms // 256
        self._columns = [BucketColumns(positions=b.positions, dim=b.dim, cell_ms=cell_ms) for b in accept.buckets]
        self.closed = len(self._columns)  # the number of the columns for lists that are never emitted (again)
        self._columns.append(BucketColumns(positions=1, dim=0, cell_ms=cell_ms))
        self.moved = RuleChange()
        self.rejudging = False  # while what was open under other rules is judged by these
        self._known: dict[str, int] = {}  # impression id -> code of the first list that has it
        self._again: dict[str, list[int]] = {}  # codes of the later ones, when an id is used again after its horizon
        self._restart_points = RestartPoints()
        # A click made up to one more horizon after its list's is still told from one without any list.
        self._forgotten = Forgotten(keep_ms=2 * horizon_ms + accept.future_ms)

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def add(
        self, events: Sequence[Impression], bucket: Ints, size: Ints, shown_at: Ints, offsets: Ints, floors: Ints
    ) -> tuple[list[int], dict[int, str]]:
        """Take in accepted impressions; return which are new, and why others are refused for their id."""
        codes = np.empty(len(events), np.int64)
        for number, columns in enumerate(self._columns):
            members = np.flatnonzero(bucket == number)
            if len(members):
                ours = [events[index] for index in members.tolist()]
                slots = self._put(columns, ours, size[members], shown_at[members], offsets[members])
                codes[members] = slots.astype(np.int64) * len(self._columns) + number
        fresh, refused = self._name(events, codes, floors)
        if len(fresh) < len(events):
            codes, shown_at = codes[fresh], shown_at[fresh]
        for number, columns in enumerate(self._columns):
            members = np.flatnonzero(codes % len(self._columns) == number)
            slots = (codes[members] // len(self._columns)).astype(np.int32)
            columns.to_forget.add(slots, shown_at[members])
            if number != self.closed:
                columns.to_close.add(slots, shown_at[members])
                self._ledger.open += len(members)
        return fresh, refused

    def _put(
        self, columns: BucketColumns, events: list[Impression], size: Ints, shown_at: Ints, offsets: Ints
    ) -> Slots:
        slots = columns.reserve(len(events))
        closed = columns is self._columns[self.closed]
        items = np.frombuffer(b"".join([event.items for event in events]), "<i8")
        contexts = np.frombuffer(b"".join([event.contexts for event in events]), "<f4")
        columns.put(
            slots,
            ids=[event.impression_id for event in events],
            items=np.zeros(len(slots), np.int64) if closed else items,
            contexts=contexts[:0] if closed else contexts,
            size=np.ones_like(size) if closed else size,
            rendered=np.array([event.rendered for event in events], np.int64),
            shown_at=shown_at,
            offset=offsets,
            epoch=np.array([event.ranked_by_epoch for event in events], np.int64),
            ranked_by=np.array([event.ranked_by_offset for event in events], np.int64),
        )
        if closed:
            columns.size[slots], columns.frozen[slots] = size, True
        elif self._frozen.below > offsets[0]:
            columns.frozen[slots] = (offsets < self._frozen.below) & (shown_at < self._frozen.before_ms)
        return slots

    def _name(self, events: Sequence[Impression], codes: Ints, floors: Ints) -> tuple[list[int], dict[int, str]]:
        remember = self._known.setdefault
        fresh: list[int] = []
        refused: dict[int, str] = {}
        repeats: dict[int, list[int]] = {}  # by number of their columns: given back together, each costs the same
        for index, (event, code) in enumerate(zip(events, codes.tolist(), strict=True)):
            name = event.impression_id
            if remember(name, code) is code:
                fresh.append(index)
                continue
            latest = self._again[name][-1] if name in self._again else self._known[name]
            columns, slot = self._at(latest)
            other, repeat = self._at(code)
            if columns.shown_at[slot] < floors[index]:  # the id's list is past its horizon, so this is another one
                self._again.setdefault(name, []).append(code)
                fresh.append(index)
                continue
            if columns is other and columns.same(slot, repeat):
                self._ledger.duplicates += 1
            else:
                self._restart_points.refuse(int(other.offset[repeat]), int(columns.offset[slot]))
                first = columns.offset[slot]
                refused[index] = f"impression {name!r} has other content than at offset {first}; the lower offset wins"
            repeats.setdefault(code % len(self._columns), []).append(repeat)
        for number, slots in repeats.items():
            self._columns[number].release(np.array(slots, np.int32))
        return fresh, refused

    def _at(self, code: int) -> tuple[BucketColumns, int]:
        slot, number = divmod(code, len(self._columns))
        return self._columns[number], slot

    def click(self, clicks: Clicks) -> NDArray[np.bool_]:
        """Give each click to the first list of its id that was open to it; return which found one."""
        find = self._known.get
        codes = np.array([find(name, -1) for name in clicks.ids], np.int64)
        taken = np.zeros(len(codes), np.bool_)
        for number in range(len(self._columns)):
            members = np.flatnonzero((codes >= 0) & (codes % len(self._columns) == number))
            if len(members):
                self._offer(number, members, codes[members], clicks, taken)
        if self._again:
            for index in np.flatnonzero(~taken).tolist():
                for code in self._again.get(clicks.ids[index], ()):
                    if not taken[index]:
                        self._offer(code % len(self._columns), np.array([index]), np.array([code]), clicks, taken)
        return taken

    def _offer(self, number: int, indices: Ints, codes: Ints, clicks: Clicks, taken: NDArray[np.bool_]) -> None:
        columns, slots = self._columns[number], (codes // len(self._columns)).astype(np.int32)
        shown_at = columns.shown_at[slots]
        is_open = shown_at >= clicks.floor[indices]
        is_open &= shown_at <= clicks.clicked_at[indices] + self._accept.future_ms
        indices, slots = indices[is_open], slots[is_open]
        taken[indices] = True
        np.maximum.at(columns.last_click, slots, clicks.offset[indices])
        frozen = columns.frozen[slots]
        if frozen.any():
            self._ledger.late += int(frozen.sum())
            self._outbox.late(self._clicks_topic, [clicks.records[index] for index in indices[frozen].tolist()])
            if self.moved.lists:
                self._move(columns, indices[frozen], slots[frozen], clicks)
            indices, slots = indices[~frozen], slots[~frozen]
        if not len(indices):
            return
        bucket = self._accept.buckets[number]
        scale = bucket.reward_scale
        bad = (clicks.position[indices] > columns.size[slots]) | (clicks.reward[indices] > scale)
        if self._past.past:
            before = self._past.reward_scale(bucket.name, columns.offset[slots], clicks.offset[indices])
            bad |= clicks.reward[indices] > before
        if bad.any():
            for index, slot in zip(indices[bad].tolist(), slots[bad].tolist(), strict=True):
                reason = f"reward {clicks.reward[index]:g} is above {scale:g}, the reward_scale of its bucket"
                if clicks.position[index] > columns.size[slot]:
                    reason = f"position {clicks.position[index]} is beyond the list of {columns.size[slot]}"
                self._ledger.dead_clicks += 1
                record, place = clicks.records[index], (number, slot, int(clicks.position[index]))
                moved = self.rejudging and place[2] <= columns.size[slot]  # it was in an open list, by the old rules
                if moved := moved and clicks.reward[index] <= self._before(bucket.name, columns, slot, record.offset):
                    self.moved.refused.append(place)
                self._outbox.refuse(self._clicks_topic, record, f"{reason}; check the producer", unheard=bool(moved))
            indices, slots = indices[~bad], slots[~bad]
        if len(indices):
            self._take(number, slots, clicks, indices)

    def _before(self, bucket: str, columns: BucketColumns, slot: int, offset: int) -> float:
        return float(self._past.reward_scale(bucket, columns.offset[[slot]], np.array([offset]))[0])

    def close(self, impression: Impression, offset: int) -> None:
        """Note that a list among the closed ones was open until the rules changed: its clicks will be late."""
        name = impression.impression_id
        for columns, slot in map(self._at, (self._known[name], *self._again.get(name, ()))):
            if columns.offset[slot] == offset:
                self.moved.lists[slot] = impression.bucket

    def _move(self, columns: BucketColumns, indices: Ints, slots: Slots, clicks: Clicks) -> None:
        """Write the clicks that lists had taken when the rules changed, and closed them, as late ones."""
        for index, slot in zip(indices.tolist(), slots.tolist(), strict=True):
            bucket, record = self.moved.lists.get(slot), clicks.records[index]
            if (
                columns is not self._columns[self.closed]
                or bucket is None
                or clicks.position[index] > columns.size[slot]
            ):
                continue
            if clicks.reward[index] <= self._before(bucket, columns, slot, record.offset):
                self._outbox.late(self._clicks_topic, [record], unheard=True)
                self.moved.late.append((slot, int(clicks.position[index])))

    def end_rejudging(self) -> Ledger:
        """Return what the change of rules has moved from one count to another, and go on by the new ones."""
        moved, self.moved, self.rejudging = self.moved, RuleChange(), False
        gone = {
            (number, slot, position)
            for number, slot, position in moved.refused
            if self._columns[number].rewards[slot, position - 1] == NO_CLICK
        }
        used, clicks = len(gone) + len(set(moved.late)), len(moved.refused) + len(moved.late)
        return Ledger(
            open=-len(moved.lists),
            dead_impressions=len(moved.lists),
            used=-used,
            repeated=used - clicks,
            late=len(moved.late),
            dead_clicks=len(moved.refused),
        )

    def _take(self, number: int, slots: Slots, clicks: Clicks, indices: Ints) -> None:
        columns, position, reward = self._columns[number], clicks.position[indices], clicks.reward[indices]
        changed = columns.emitted[slots] & (reward > columns.rewards[slots, position - 1])
        corrected = np.unique(slots[changed]) if changed.any() else slots[:0]
        corrected = corrected[np.argsort(columns.offset[corrected])]  # whatever slots they happen to have
        old = columns.lists(corrected)
        first = columns.click(slots, position, reward, clicks.offset[indices])
        self._outbox.delayed(clicks.clicked_at[indices[first]] - columns.shown_at[slots[first]])
        self._ledger.used += len(first)
        self._ledger.repeated += len(slots) - len(first)
        if len(corrected):
            self._ledger.corrections += len(corrected)
            name = self._accept.buckets[number].name
            self._outbox.sample(batches.correct(name, self._outbox.partition, old, columns.lists(corrected)))

    def within(self, before_ms: int, most_bytes: int) -> int:
        """Return a time up to ``before_ms``, before which ``emit`` writes about so many bytes, or one list."""
        due = [columns.shown_at[columns.to_close.before(before_ms, columns.shown_at)] for columns in self._columns[:-1]]
        sizes = [list_bytes(bucket.positions, bucket.dim) for bucket in self._accept.buckets]
        if sum(size * len(shown_at) for size, shown_at in zip(sizes, due, strict=True)) <= most_bytes:
            return before_ms
        shown_at = np.concatenate(due)
        order = np.argsort(shown_at)
        shown_at = shown_at[order]
        taken = np.cumsum(np.repeat(sizes, [len(times) for times in due])[order])
        return max(int(shown_at[np.searchsorted(taken, most_bytes, side="right")]), int(shown_at[0]) + 1)

    def emit(self, before_ms: int) -> None:
        """Write the lists shown before ``before_ms`` that are not out yet."""
        for bucket, columns in zip(self._accept.buckets, self._columns, strict=False):
            slots = columns.to_close.pop_before(before_ms, columns.shown_at)
            if len(slots):
                columns.emitted[slots] = True
                self._ledger.open -= len(slots)
                self._ledger.lists += len(slots)
                if self._outbox.muted:
                    continue
                self._outbox.sample(batches.learn(bucket.name, self._outbox.partition, columns.lists(slots)))

    def forget(self, before_ms: int) -> None:
        """Forget the lists shown before ``before_ms``, which must be out."""
        for number, columns in enumerate(self._columns):
            slots = columns.to_forget.pop_before(before_ms, columns.shown_at)
            if not len(slots):
                continue
            for name, slot in zip(columns.ids[slots].tolist(), slots.tolist(), strict=True):
                if name in self._again:
                    self._forget_one(name, slot * len(self._columns) + number)
                else:
                    del self._known[name]
            self._forgotten.add(columns.ids[slots].tolist(), int(columns.shown_at[slots].max()))
            self._restart_points.forget(columns.last_click[slots], columns.offset[slots])
            columns.release(slots)
            if columns.roomy:
                self._compact(number)

    def _compact(self, number: int) -> None:
        """Give back the memory that columns had at a peak; the codes of their lists change."""
        moved, step = self._columns[number].compact().tolist(), len(self._columns)

        def renamed(code: int) -> int:
            slot, columns = divmod(code, step)
            return moved[slot] * step + columns if columns == number else code

        self._known = {name: renamed(code) for name, code in self._known.items()}
        self._again = {name: list(map(renamed, codes)) for name, codes in self._again.items()}

    def _forget_one(self, name: str, code: int) -> None:
        left = [self._known[name], *self._again.pop(name)]
        left.remove(code)
        self._known[name] = left[0]
        if len(left) > 1:
            self._again[name] = left[1:]

    def knew(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each id whether a list of it is remembered, or was until not long ago."""
        return self._forgotten.knows(ids) | np.fromiter((name in self._known for name in ids), np.bool_, len(ids))

    def first_click(self) -> int:
        """Return the lowest offset of a click that a remembered list has taken."""
        return min(int(columns.first_click.min(initial=NONE)) for columns in self._columns)

    def first_list(self, first_click: int, otherwise: int, place: Callable[[int], int]) -> int:
        """Return the lowest offset of a list that is needed, when clicks are read again from ``first_click`` on."""
        remembered = min(int(columns.offset.min(initial=NONE)) for columns in self._columns)
        return self._restart_points.first_list(min(remembered, otherwise), first_click, place)
