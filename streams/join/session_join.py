"""Impressions and clicks of one partition in; samples, dead letters and late clicks out (pure).

What enters the net is a function of the two logs alone: an event is judged by its own log's clock, and a click goes to
the first list of its id that was open to it. How the logs are interleaved, cut into batches, closed by whatever clock
or reread after a restart changes when a sample appears, never what remains in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression
from streams.events import MAX_ID_BYTES, Acceptance, list_bytes
from streams.join.checkpoint import Checkpoint
from streams.join.clicks import Clicks, WaitingClicks
from streams.join.clock import HorizonEra, LogClock
from streams.join.commit import Commit, Frozen, LogPart
from streams.join.eras import RuleEra, RuleEras
from streams.join.ledger import Ledger
from streams.join.open_lists import OpenLists
from streams.join.outbox import Outbox
from streams.logs import LogRecord

Ints = NDArray[np.int64]


class SessionJoin:
    """Gathers the clicks of each shown list, emits it when its wait has passed, and corrects it until its horizon.

    Parameters
    ----------
    accept
        The rules that an event must keep.
    wait_ms, lateness_ms
        A list closes ``wait_ms`` after it was shown and takes corrections for ``lateness_ms`` more.
    resume
        The commit of an earlier join of this partition. Its events from the committed offsets up to ``processed`` are
        taken in silently, as they were joined before; ``rebuilding`` says whether some are still missing.
    """

    def __init__(
        self,
        accept: Acceptance,
        *,
        wait_ms: int,
        lateness_ms: int,
        resume: Commit | None = None,
        partition: int = 0,
        impressions_topic: str = "impressions",
        clicks_topic: str = "clicks",
    ) -> None:
        self._accept, self._wait_ms = accept, wait_ms
        self._topics = impressions_topic, clicks_topic
        self._resume = resume = resume or Commit.beginning(accept.hash)
        self._rules_changed = resume.rules != accept.hash
        # What is out was made by other rules then, so nobody knows what a correction would have to take back.
        changed = Frozen(resume.emitted_before, resume.impressions.processed)
        self._frozen = changed if self._rules_changed else resume.frozen
        self._past = RuleEras(_past(resume, accept), accept)
        self._rules = accept.write()
        self._emitted_before = resume.emitted_before
        horizon_ms = wait_ms + lateness_ms
        self.impressions = _clock(resume.impressions, horizon_ms)
        self.clicks = _clock(resume.clicks, horizon_ms)
        self.ledger = Ledger()
        self._outbox = Outbox(partition=partition, most_bytes=accept.most_bytes)
        self._lists = OpenLists(
            accept,
            horizon_ms=horizon_ms,
            frozen=self._frozen,
            past=self._past,
            outbox=self._outbox,
            ledger=self.ledger,
            clicks_topic=clicks_topic,
        )
        self._waiting = WaitingClicks()
        self.rebuilding = self._outbox.muted = True
        self._lists.rejudging = self._rules_changed and bool(resume.accept)
        self.rejudged = 0, 0  # impressions and clicks whose verdict changed in the rebuild: 0 unless the rules did
        self._end_rebuild()

    def __len__(self) -> int:
        return len(self._lists)

    def add_impressions(self, records: Sequence[LogRecord], next_offset: int | None = None) -> None:
        """Take in records of the impressions log; ``next_offset`` is where reading goes on, markers passed."""
        self.ledger.impressions += len(records)
        floors = self._advance(self.impressions, self._resume.impressions, records, next_offset)
        records, events, floors = self._decode(records, Impression, floors)
        if events:
            timestamps = np.array([record.timestamp for record in records], np.int64)
            shown_at = np.array([event.shown_at_ms for event in events], np.int64)
            offsets = np.array([record.offset for record in records], np.int64)
            bucket, size, refused = self._accept.judge(events, shown_at, timestamps)
            just_now: dict[int, str] = {}
            if self._past.concern(offsets):
                closed, reasons = self._past.judge(events, shown_at, timestamps, offsets, refused)
                bucket[list(closed)] = self._lists.closed
                just_now = {int(offsets[index]): reason for index, reason in reasons.items()}
            good = shown_at >= floors
            late = np.flatnonzero(~good).tolist()
            if late or refused:
                good[list(refused)] = False
                self._refuse_impressions(records, shown_at, floors, refused, [i for i in late if i not in refused])
                kept = np.flatnonzero(good).tolist()
                records, events = [records[index] for index in kept], [events[index] for index in kept]
                bucket, size, shown_at, floors = bucket[kept], size[kept], shown_at[kept], floors[kept]
                offsets = offsets[kept]
            fresh, taken = self._lists.add(events, bucket, size, shown_at, offsets, floors)
            self._refuse_impressions(records, shown_at, floors, taken, [])
            if self._lists.rejudging and just_now:
                self._close(just_now, [(records[index], events[index]) for index in fresh])
            if len(self._waiting):
                self._match(dict.fromkeys(events[index].impression_id for index in fresh))
        self._end_rebuild()

    def _refuse_impressions(
        self, records: Sequence[LogRecord], shown_at: Ints, floors: Ints, refused: dict[int, str], too_late: list[int]
    ) -> None:
        self.ledger.dead_impressions += len(refused)
        self.ledger.too_late += len(too_late)
        topic = self._topics[0]
        for index, reason in refused.items():
            # under new rules, and not knowing the old, an impression that was open may be refused only now
            unheard = self.rebuilding and self._rules_changed and not self._lists.rejudging
            unheard = unheard and bool(shown_at[index] >= self._emitted_before)
            self._outbox.refuse(topic, records[index], reason, unheard=unheard)
        for index in too_late:
            past_s = (floors[index] - shown_at[index]) / 1000
            self._outbox.refuse(topic, records[index], f"too late: its horizon had passed {past_s:g} s before it came")

    def _close(self, reasons: dict[int, str], fresh: list[tuple[LogRecord, Impression]]) -> None:
        """Refuse lists that were open until the rules changed."""
        for record, impression in fresh:
            if record.offset in reasons:
                self._lists.close(impression, record.offset)
                self._outbox.refuse(self._topics[0], record, reasons[record.offset], unheard=True)

    def add_clicks(self, records: Sequence[LogRecord], next_offset: int | None = None) -> None:
        """Take in records of the clicks log; a click whose list has not come waits for it."""
        self.ledger.clicks += len(records)
        floors = self._advance(self.clicks, self._resume.clicks, records, next_offset)
        records, events, floors = self._decode(records, Click, floors)
        if events:
            clicks = Clicks(
                list(records),
                [event.impression_id for event in events],
                np.array([event.position for event in events], np.int64),
                np.array([event.reward for event in events], np.float64),
                np.array([event.clicked_at_ms for event in events], np.int64),
                np.array([record.offset for record in records], np.int64),
                floors,
            )
            bad = (clicks.position < 1) | ~((clicks.reward >= 0) & (clicks.reward < np.inf))
            long = [len(event.impression_id) + len(event.session_id) for event in events]
            for index in np.flatnonzero(np.array(long) > MAX_ID_BYTES // 4).tolist():  # 4 bytes a character at most
                bad[index] |= _longest_id(events[index]) > MAX_ID_BYTES
            timestamps = np.array([record.timestamp for record in records], np.int64)
            bad |= clicks.clicked_at > timestamps + self._past.future_ms(clicks.offset)
            if bad.any():
                self.ledger.dead_clicks += int(bad.sum())
                for index in np.flatnonzero(bad).tolist():
                    self._outbox.refuse(self._topics[1], records[index], self._bad_click(events[index], records[index]))
                clicks = clicks.pick(~bad)
            self._offer(clicks)
        self._end_rebuild()

    def _bad_click(self, click: Click, record: LogRecord) -> str:
        if _longest_id(click) > MAX_ID_BYTES:
            return f"an id of {_longest_id(click)} bytes; at most {MAX_ID_BYTES}"
        if click.position < 1:
            return f"position {click.position}; positions start at 1"
        if not 0 <= click.reward < np.inf:
            return f"reward {click.reward:g} is not a finite number of 0 or more"
        ahead, most = (click.clicked_at_ms - record.timestamp) / 1000, self._accept.future_ms / 1000
        return f"clicked {ahead:g} s after its own record; at most {most:g} s; check the producer's clock"

    def _match(self, names: Iterable[str]) -> None:
        waited = [click for name in names if name in self._waiting for click in self._waiting.take(name)]
        if waited:
            self._outbox.early(self._offer(Clicks.of(waited)))

    def _offer(self, clicks: Clicks) -> int:
        """Give clicks to their lists, keep those that have none, and return how many found one."""
        found = self._lists.click(clicks)
        if not found.all():
            clicks = clicks.pick(~found)
            # A list shown more than the tolerance after the click is not the one that was clicked; so none can come
            # for a click that was made that long before the floor of either log.
            hopeless = clicks.clicked_at + self._accept.future_ms < np.maximum(clicks.floor, self.impressions.floor)
            gone = clicks.pick(hopeless)
            self._late(gone.records, gone.ids)
            self._waiting.add(clicks.pick(~hopeless))
        self.ledger.waiting = len(self._waiting)
        return int(found.sum())

    def _late(self, records: list[Any], ids: list[str]) -> None:
        if records:
            self.ledger.late += len(records)
            self._outbox.late(self._topics[1], records)
            self._outbox.orphaned(int((~self._lists.knew(ids)).sum()))

    def idle(self, *, impressions_ms: int | None = None, clicks_ms: int | None = None) -> None:
        """Note that a log was read to its end, and that what it gets next will bear at least this time stamp."""
        if impressions_ms is not None:
            self.impressions.idle_at(impressions_ms)
        if clicks_ms is not None:
            self.clicks.idle_at(clicks_ms)

    @property
    def pending_bytes(self) -> int:
        """About how much the next checkpoint must write already; feed no more once this is what one may hold."""
        return self._outbox.bytes

    def room_for(self, records: Sequence[LogRecord], most_bytes: int) -> int:
        """Return how many of ``records`` may be fed before a checkpoint of ``most_bytes``: all, half of them, …, none.

        Each may become a dead letter or correct a list. One is always allowed when nothing is pending.
        """
        room = most_bytes - self.pending_bytes
        each = max(2 * list_bytes(bucket.positions, bucket.dim) for bucket in self._accept.buckets)
        sizes = [len(record.key or b"") + len(record.value or b"") for record in records]
        count = len(records)
        while count and sum(sizes[:count]) + count * each > room:
            count //= 2
        return count or int(bool(records) and not self.pending_bytes)

    def checkpoint(self, clock_ms: int, *, most_bytes: int | None = None) -> Checkpoint:
        """Close what was shown before ``clock_ms`` − wait; return what is to be written, and where it stands.

        With ``most_bytes`` no more lists are closed than make about so many bytes together with what came of feeding;
        the next checkpoint goes on. Feeding must stop in time: see ``pending_bytes``.
        """
        if self.rebuilding:
            raise ValueError("a join must reread all that was processed before it can go on")
        self._settle(clock_ms - self._wait_ms, None if most_bytes is None else max(0, most_bytes - self.pending_bytes))
        first_click = min(self._lists.first_click(), self._waiting.first_offset(self.clicks.offset))
        clicks = self.clicks.place_before(first_click)
        place = self.impressions.offset_before
        first_list = self._lists.first_list(clicks.offset, self.impressions.offset, place)
        impressions = self.impressions.place_before(first_list)
        commit = Commit(
            LogPart.of(self.impressions, impressions),
            LogPart.of(self.clicks, clicks),
            self._accept.hash,
            self._emitted_before,
            self._frozen,
            replace(self.ledger),
            self._rules,
            tuple(era for era in self._past.past if era.below > impressions.offset or era.clicks_below > clicks.offset),
        )
        outbox = self._outbox
        delays = np.concatenate(outbox.click_delays) if outbox.click_delays else np.zeros(0, np.int64)
        counts = outbox.early_clicks, outbox.orphan_clicks
        checkpoint = Checkpoint(outbox.samples, outbox.dead_letters, outbox.late_clicks, commit, delays, *counts)
        outbox.clear()
        return checkpoint

    def _settle(self, emit_before: int, most_bytes: int | None = None) -> None:
        """Emit, forget and dismiss what the clocks have passed; a list is out before it is forgotten."""
        forget_before = min(self.impressions.floor, self.clicks.floor)
        if not self.rebuilding:  # nothing that was not out may seem so
            emit_before = max(emit_before, forget_before)
            if most_bytes is not None:
                emit_before = self._lists.within(emit_before, most_bytes)
            self._emitted_before = max(self._emitted_before, emit_before)
        self._lists.emit(self._emitted_before)
        self._lists.forget(min(forget_before, self._emitted_before))
        gone = self._waiting.dismiss(self.impressions.floor - self._accept.future_ms)
        self._late([click.record for click in gone], [click.impression_id for click in gone])
        self.ledger.waiting = len(self._waiting)

    def _advance(self, log: LogClock, part: LogPart, records: Sequence[LogRecord], next_offset: int | None) -> Ints:
        offsets = np.array([record.offset for record in records], np.int64)
        timestamps = np.array([record.timestamp for record in records], np.int64)
        last = int(offsets[-1]) + 1 if len(offsets) else log.offset
        if self.rebuilding and last > part.processed:
            raise ValueError(
                f"rebuilding ends at offset {part.processed}, got {last - 1}; first let both logs get there"
            )
        return log.advance(offsets, timestamps, max(last, next_offset or 0))

    def _decode(
        self, records: Sequence[LogRecord], kind: type[Any], floors: Ints
    ) -> tuple[Sequence[LogRecord], list[Any], Ints]:
        events: list[Any] = []
        refused: list[int] = []
        most = self._accept.most_bytes
        for index, record in enumerate(records):
            size = len(record.key or b"") + len(record.value or b"")
            try:
                if size > most:
                    raise SchemaError(f"an event of {size} bytes; at most {most}, the key included")
                events.append(decode(record.value, kind))  # type: ignore[arg-type]  # a tombstone is refused there
            except SchemaError as error:
                refused.append(index)
                self._outbox.refuse(self._topics[kind is Click], record, str(error))
        if not refused:
            return records, events, floors
        if kind is Click:
            self.ledger.dead_clicks += len(refused)
        else:
            self.ledger.dead_impressions += len(refused)
        kept = np.delete(np.arange(len(records)), refused).tolist()
        return [records[index] for index in kept], events, floors[kept]

    def _end_rebuild(self) -> None:
        """Once all that was processed has been read again, stand where the commit says, and go on."""
        resume = self._resume
        if not self.rebuilding:
            return
        if self.impressions.offset < resume.impressions.processed or self.clicks.offset < resume.clicks.processed:
            self._settle(self._emitted_before)
            return
        self.impressions.floor = max(self.impressions.floor, resume.impressions.floor)
        self.clicks.floor = max(self.clicks.floor, resume.clicks.floor)
        self._settle(self._emitted_before)
        found, before, moved = replace(self.ledger), resume.ledger.counts(), self._lists.end_rejudging().counts()
        for name, count in before.items():
            setattr(self.ledger, name, count + moved[name])
        self.rejudged = found.open - before["open"], found.waiting - before["waiting"]
        # Nothing is left to move unless the old rules are not known. Then lists were refused, and clicks were in lists.
        _shift(self.ledger, "open", found.open, ("dead_impressions", "duplicates", "too_late"))
        _shift(self.ledger, "waiting", found.waiting, ("used", "repeated", "late"))
        self.rebuilding = self._outbox.muted = False


def _longest_id(click: Click) -> int:
    return max(len(click.impression_id.encode()), len(click.session_id.encode()))


def _past(resume: Commit, accept: Acceptance) -> tuple[RuleEra, ...]:
    """Return the rules before today's, oldest first."""
    if resume.rules == accept.hash:
        return resume.past
    if not resume.accept:
        return ()  # not known, and with a gap the older ones are of no use
    ended = RuleEra(resume.impressions.processed, resume.clicks.processed, resume.emitted_before, resume.accept)
    return (*resume.past, ended)


def _shift(ledger: Ledger, name: str, count: int, others: Sequence[str]) -> None:
    """Set one count, and take what it gains from the first of the others that have it, or give it what is left."""
    more = count - getattr(ledger, name)
    setattr(ledger, name, count)
    for other in others if more > 0 else others[:1]:
        taken = min(more, getattr(ledger, other))
        setattr(ledger, other, getattr(ledger, other) - taken)
        more -= taken


def _clock(part: LogPart, horizon_ms: int) -> LogClock:
    eras = list(part.eras)
    if not eras or eras[-1].horizon_ms != horizon_ms:
        eras.append(HorizonEra(part.processed, horizon_ms, part.floor))
    return LogClock(part.place, eras)
