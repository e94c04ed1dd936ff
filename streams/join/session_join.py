"""Impressions and clicks of one partition in; samples, dead letters and late clicks out (pure).

What enters the net is a function of the two logs and of the rules at each offset: an event is judged by its own log's
clock, and a click goes to the first list of its id that was open to it. How the logs are interleaved, cut into batches,
closed by whatever clock or reread after a restart changes when a sample appears, never what remains in the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from schemas.event_columns import ClickColumns, ImpressionColumns
from schemas.records import Click, Impression
from streams.events import MAX_ID_BYTES, Acceptance, EventReader, judge_clicks, judge_impressions, list_bytes
from streams.join.batches import note_of
from streams.join.clicks import Clicks, WaitingClicks
from streams.join.clock import LogClock, Times
from streams.join.columns import MOST_HELD_MS
from streams.join.commit import NEVER, Commit, Ledger
from streams.join.open_lists import REFUSED, OpenLists, Shown
from streams.join.outbox import Checkpoint, Outbox
from streams.join.rules import JoinRules, eras_from, parts
from streams.logs import LogRecord, record_bytes
from streams.settings import EVENTS, LogPair, Settings


class SessionJoin:
    """Gathers the clicks of each shown list, emits it when its wait has passed, and corrects it until its horizon.

    Parameters
    ----------
    accept
        The content rules in force, and how far an event may be dated after its record.
    wait_ms, lateness_ms
        A list closes ``wait_ms`` after it was shown and takes corrections for ``lateness_ms`` more.
    resume
        The commit of an earlier join. Events between its offsets and ``processed`` are taken in silently, as they were
        joined before; ``rebuilding`` says whether some are still missing.
    known
        Rules of earlier eras by hash, as ``Checkpoint.rules`` said; BadCommit says when one is missing.
    """

    def __init__(
        self,
        accept: Acceptance,
        *,
        wait_ms: int,
        lateness_ms: int,
        reader: EventReader,
        resume: Commit | None = None,
        known: Mapping[str, bytes] | None = None,
        partition: int = 0,
        topics: LogPair[str] = EVENTS,
    ) -> None:
        self._wait_ms, self._topics = wait_ms, topics
        self._reader = reader
        self._resume = resume = resume or Commit.beginning()
        now = JoinRules(accept, horizon_ms=wait_ms + lateness_ms)
        eras, self._new_rules = eras_from(resume, now, known or {}, partition)
        self._emitted_before, self._time_ms = resume.emitted_before, resume.time_ms
        self._dismissed_before = NEVER
        self.impressions = LogClock(resume.impressions, eras.impressions)
        self.clicks = LogClock(resume.clicks, eras.clicks)
        self.ledger = Ledger()
        every = [*eras.impressions.rules, *eras.clicks.rules]
        self._outbox = Outbox(partition=partition, most_bytes=max(rules.accept.most_bytes for rules in every))
        self._list_bytes = max(
            list_bytes(bucket.positions, bucket.dim) for rules in every for bucket in rules.accept.buckets
        )
        self._lists = OpenLists(every, outbox=self._outbox, ledger=self.ledger)
        self._numbers = {rules.hash: self._lists.columns_of(rules) for rules in every}
        self._waiting = WaitingClicks()
        self.rebuilding = self._outbox.muted = True
        self._end_rebuild()

    @classmethod
    def of(cls, settings: Settings, reader: EventReader, **options: Any) -> Self:
        """Return a join by the rules that are set."""
        return cls(
            Acceptance(settings.buckets, future_ms=int(settings.future_s * 1000)),
            wait_ms=int(settings.wait_s * 1000),
            lateness_ms=int(settings.lateness_s * 1000),
            reader=reader,
            **options,
        )

    def __len__(self) -> int:
        return len(self._lists)

    def add_impressions(self, records: Sequence[LogRecord], next_offset: int | None = None) -> None:
        """Take in records of the impressions log; ``next_offset`` is where reading goes on, markers passed."""
        self.ledger.impressions += len(records)
        times = self._advance(self.impressions, records, next_offset)
        for part in parts(times.offset, (*self.impressions.eras.starts, self._resume.lists_from)):
            self._show(records[part], times.pick(part))
        self._end_rebuild()

    def _show(self, records: Sequence[LogRecord], times: Times) -> None:
        rules = self.impressions.eras.at(int(times.offset[0]))
        batch = self._reader.read(records, Impression, rules.accept.most_bytes)
        self._refuse_impressions(records, batch.rejected)
        lists: ImpressionColumns = batch.columns
        if not lists.ids:
            return
        times, shown_at = times.pick(batch.kept), lists.shown_at
        bucket, refused = judge_impressions(rules.accept, lists, times.stamp, batch.events)
        fit = np.ones(len(lists.ids), np.bool_)
        fit[list(refused)] = False
        in_time = shown_at >= times.floor
        good = fit & in_time
        until = np.where(good, np.maximum(shown_at, np.minimum(times.clock, shown_at + MOST_HELD_MS)), times.clock)
        for index in refused:
            if len(lists.ids[index].encode()) > MAX_ID_BYTES:
                until[index] = NEVER  # no impression can ever have this id
        columns = np.where(good, self._numbers[rules.hash][bucket], REFUSED)
        notes = {index: note for index, event in batch.events.items() if (note := note_of(event)) is not None}
        shown = Shown(lists, notes, columns, times.offset, times.floor, until)
        self.impressions.reached(times.offset, until)
        if times.offset[0] < self._resume.lists_from:
            self._lists.hold(shown)
            return
        self._refuse_impressions(batch.records, refused)
        too_late = np.flatnonzero(fit & ~in_time).tolist()
        self.ledger.too_late += len(too_late)
        past_s = {index: (int(times.floor[index]) - int(shown_at[index])) / 1000 for index in too_late}
        reasons = {
            index: f"too late: its horizon had passed {past:g} s before it came" for index, past in past_s.items()
        }
        self._outbox.refuse(self._topics.impressions, batch.records, reasons)
        fresh, taken = self._lists.add(shown)
        self._refuse_impressions(batch.records, taken)
        if not self.rebuilding:  # lists that are overdue go out with the next checkpoint, however many they are
            self._outbox.bytes += int((shown_at[fresh] < self._emitted_before).sum()) * self._list_bytes
        if len(self._waiting):
            names = lists.ids if len(fresh) == len(lists.ids) else [lists.ids[index] for index in fresh]
            self._match(dict.fromkeys(filter(self._waiting.names.__contains__, names)))

    def _refuse_impressions(self, records: Sequence[LogRecord], reasons: Mapping[int, str]) -> None:
        self.ledger.dead_impressions += len(reasons)
        self._outbox.refuse(self._topics.impressions, records, reasons)

    def _refuse_clicks(self, records: Sequence[LogRecord], reasons: Mapping[int, str]) -> None:
        self.ledger.dead_clicks += len(reasons)
        self._outbox.refuse(self._topics.clicks, records, reasons)

    def add_clicks(self, records: Sequence[LogRecord], next_offset: int | None = None) -> None:
        """Take in records of the clicks log; a click whose list has not come waits for it."""
        self.ledger.clicks += len(records)
        times = self._advance(self.clicks, records, next_offset)
        for part in parts(times.offset, self.clicks.eras.starts):
            self._click(records[part], times.pick(part))
        self._end_rebuild()

    def _click(self, records: Sequence[LogRecord], times: Times) -> None:
        rules = self.clicks.eras.at(int(times.offset[0]))
        batch = self._reader.read(records, Click, rules.accept.most_bytes)
        self._refuse_clicks(records, batch.rejected)
        taps: ClickColumns = batch.columns
        if not taps.ids:
            return
        times = times.pick(batch.kept)
        # A time before all times is no other; so sums of it do not overflow.
        clicked_at = np.clip(taps.clicked_at, NEVER, None)
        clicks = Clicks(
            list(batch.records),
            taps.ids,
            np.array(taps.sessions, np.object_),
            taps.position,
            taps.reward,
            clicked_at,
            clicked_at + rules.accept.future_ms,
            times.offset,
            times.floor,
        )
        if rejected := judge_clicks(rules.accept, taps, times.stamp):
            self._refuse_clicks(batch.records, rejected)
            clicks = clicks.pick(np.delete(np.arange(len(taps.ids)), list(rejected)))
        self._offer(clicks)

    def _match(self, names: Iterable[str]) -> None:
        waited = [click for name in names for click in self._waiting.take(name)]
        if waited:
            self._outbox.early_clicks += self._offer(Clicks.of(waited), waited=True)

    def _offer(self, clicks: Clicks, *, waited: bool = False) -> int:
        """Give clicks to their lists, keep those that have none, and return how many found one."""
        taken, refused = self._lists.click(clicks)
        for list_offset, index, reason in refused:
            record = clicks.records[index]
            if self._must_hold((list_offset, record.offset), waited=waited):
                self._outbox.hold(list_offset, self._topics.clicks, record, reason)
            else:
                self._refuse_clicks(clicks.records, {index: reason})
        if not taken.all():
            clicks = clicks.pick(~taken)
            # No list can come any more that was shown before the floor of the clicks log at the click, or so early that
            # clicks without a list of that time are out already.
            hopeless = clicks.latest < np.maximum(clicks.floor, self._dismissed_before)
            gone = clicks.pick(hopeless)
            self._late(gone.records, gone.ids)
            self._waiting.add(clicks.pick(~hopeless))
        self._count_waiting()
        return int(taken.sum())

    def _must_hold(self, at: tuple[int, int], *, waited: bool) -> bool:
        """Return whether a letter waits for room, or waited for it when the commit was made.

        Nothing is fed while some wait: so those not out are all that the last lists refused, from one of them on.
        """
        if self.rebuilding:
            return self._resume.held_from is not None and at >= self._resume.held_from
        return waited and self._outbox.full

    def _count_waiting(self) -> None:
        self.ledger.waiting = len(self._waiting) + len(self._outbox.held)

    def _late(self, records: list[Any], ids: list[str]) -> None:
        if records:
            self.ledger.late += len(records)
            self._outbox.late(self._topics.clicks, records)
            self._outbox.orphan_clicks += int((~self._lists.knew(ids)).sum())

    def idle(self, *, impressions_ms: int | None = None, clicks_ms: int | None = None) -> None:
        """Note that a log was read to its end, and that what it gets next will bear at least this time stamp.

        The end is that of the log itself: what an open transaction hides bears older stamps. The time is never that of
        a wall clock.
        """
        if impressions_ms is not None:
            self.impressions.idle_at(impressions_ms)
        if clicks_ms is not None:
            self.clicks.idle_at(clicks_ms)
        self._time_ms = max(self._time_ms, impressions_ms or NEVER, clicks_ms or NEVER)

    @property
    def time_ms(self) -> int:
        """What time it is at least, by the stamps of both logs and by what the commit said; NEVER if nobody knows."""
        return max(self._time_ms, self.impressions.latest, self.clicks.latest)

    def room_for(self, records: Sequence[LogRecord], most_bytes: int) -> int:
        """Return how many of ``records`` may be fed before a checkpoint of ``most_bytes``.

        Each may become a dead letter or correct a list. One may come when nothing is pending, none while letters wait.
        """
        self._outbox.limit = most_bytes
        if self._outbox.held:
            return 0
        room = max(0, most_bytes - self._outbox.bytes)
        count = min(len(records), room // (2 * self._list_bytes))
        while count and record_bytes(records[:count]) + count * 2 * self._list_bytes > room:
            count //= 2
        return count or int(bool(records) and not self._outbox.bytes)

    def checkpoint(self, clock_ms: int, *, most_bytes: int | None = None) -> Checkpoint:
        """Close what was shown before ``clock_ms`` − wait; return what is to be written, and where it stands.

        With ``most_bytes`` no more is closed or dismissed than makes about so many bytes together with what came of
        feeding; the next checkpoint goes on. Feeding must stop in time: see ``room_for``.
        """
        if self.rebuilding:
            raise ValueError("a join must reread all that was processed before it can go on")
        outbox = self._outbox
        self.ledger.dead_clicks += outbox.release(self._room(most_bytes))
        self._settle(clock_ms - self._wait_ms, most_bytes)
        waiting = self._waiting.first_offset(self.clicks.offset)
        first_click = min(self._lists.first_click(), waiting, *(held.click_offset for held in outbox.held))
        clicks = self.clicks.standing(first_click)
        lists_from = self._lists.first_list(clicks.restart.offset, self.impressions.offset)
        commit = Commit(
            self.impressions.standing(lists_from, with_held_ids=True),
            clicks,
            lists_from,
            self._emitted_before,
            self._dismissed_before,
            self.time_ms,
            replace(self.ledger),
            outbox.held[0][:2] if outbox.held else None,
        )
        rules, self._new_rules = self._new_rules, []
        return outbox.checkpoint(commit, rules)

    def _settle(self, emit_before: int, most_bytes: int | None = None) -> None:
        """Emit, forget and dismiss what the clocks have passed; a list is out before it is forgotten."""
        dismiss_before = self.impressions.floor
        if self.rebuilding:  # nothing that was not out may seem so
            dismiss_before = min(dismiss_before, self._resume.dismissed_before)
        gone, dismissed = self._waiting.dismiss(dismiss_before, self._room(most_bytes))
        self._late([click.record for click in gone], [click.impression_id for click in gone])
        self._count_waiting()
        forget_before = min(self.impressions.floor, self.clicks.floor)
        if not self.rebuilding:
            self._dismissed_before = max(self._dismissed_before, dismissed)
            emit_before = max(emit_before, forget_before)
            if (room := self._room(most_bytes)) is not None:
                emit_before = self._lists.within(emit_before, room)
            self._emitted_before = max(self._emitted_before, emit_before)
        self._lists.emit(self._emitted_before)
        self._lists.forget(min(forget_before, self._emitted_before), self.impressions.floor)

    def _room(self, most_bytes: int | None) -> int | None:
        return None if most_bytes is None else max(0, most_bytes - self._outbox.bytes)

    def _advance(self, log: LogClock, records: Sequence[LogRecord], next_offset: int | None) -> Times:
        offsets = np.array([record.offset for record in records], np.int64)
        timestamps = np.array([record.timestamp for record in records], np.int64)
        last = int(offsets[-1]) + 1 if len(offsets) else log.offset
        if self.rebuilding and last > log.processed:
            raise ValueError(
                f"rebuilding ends at offset {log.processed}, got {last - 1}; first let both logs get there"
            )
        return log.advance(offsets, timestamps, [record.key for record in records], max(last, next_offset or 0))

    def _end_rebuild(self) -> None:
        """Once all that was processed has been read again, stand where the commit says, and go on."""
        if not self.rebuilding:
            return
        resume, rebuilt = self._resume, self.impressions.rebuilt and self.clicks.rebuilt
        if rebuilt:
            self.impressions.floor = max(self.impressions.floor, resume.impressions.floor)
            self.clicks.floor = max(self.clicks.floor, resume.clicks.floor)
        self._settle(self._emitted_before)
        if rebuilt:
            self._outbox.held = deque(sorted(self._outbox.held))
            self._outbox.clear()  # of what was counted for the second time
            for name, count in resume.ledger.counts().items():
                setattr(self.ledger, name, count)
            self._dismissed_before = resume.dismissed_before
            self.rebuilding = self._outbox.muted = False
