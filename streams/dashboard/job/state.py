"""What the page shows: one object that a reading thread feeds and that any number of pages read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression, SampleBatch
from streams.dashboard.click_delays import ClickDelays
from streams.dashboard.detail import detail
from streams.dashboard.letters import Letters
from streams.dashboard.loop import FreshnessLoop
from streams.dashboard.rates import WINDOWS, RateColumns, Rates
from streams.dashboard.recent import SPAN_MS
from streams.dashboard.rounding import short
from streams.dashboard.snapshots_view import Snapshots
from streams.dashboard.source import Look, WeightedRecord
from streams.dashboard.throughput import STREAMS, Throughput
from streams.settings import Settings

log = logging.getLogger(__name__)

Rows = dict[str, list[Any]]  # a table by key, of which only changed rows travel
SAID_MS = 600_000  # so long the page says that a part of it has failed
SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class PageView:
    """What one page wants to see; without a window, the one that fits."""

    window: str = ""
    bucket: str = ""


class State:
    """Everything that the page shows, as far as the log was read.

    Parameters
    ----------
    settings
        The buckets and the times of the join.
    source_name
        Where the records come from, for people.
    consumers
        Whether there is anybody whose lag could be told.
    clock
        Wall time in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source_name: str,
        consumers: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.source_name, self._clock = settings, source_name, clock
        self.consumers = consumers
        self.columns = RateColumns(settings.buckets)
        self.rates = Rates(settings.buckets, self.columns)
        self.snapshots = Snapshots()
        self.letters = Letters()
        self.throughput = Throughput()
        self.click_delays = ClickDelays(settings.horizon_s)
        self.loop = FreshnessLoop(settings.horizon_s)
        self.lock = Lock()  # held by whoever reads or writes
        self.version = 0
        self._look = Look(at_ms=0)
        self._skipped: dict[str, int] = {}
        self._broken: dict[str, tuple[str, int]] = {}  # part of the page -> why it failed, and when
        self._trouble: tuple[str, int] | None = None
        self._lag: dict[str, Any] | None = None
        self._lag_trouble = ""

    def add(self, look: Look) -> None:
        """Take in what a look has found."""
        with self.lock:
            self._look, self._trouble = look, None
            for topic, count in look.skipped.items():
                self._skipped[topic] = self._skipped.get(topic, 0) + count
            self._take(look)
            self.version += 1

    def _take(self, look: Look) -> None:
        """Let each part of the page take what it is about; one that fails is said, and the others go on."""
        entries, now_ms, newest = look.entries, look.at_ms, self.snapshots.newest
        shown = [
            record for record in map(self._event, entries.get("impressions", [])) if isinstance(record, Impression)
        ]
        clicked = [record for record in map(self._event, entries.get("clicks", [])) if isinstance(record, Click)]
        lists: list[tuple[int, float]] = []
        with self._part("snapshots"):
            for snapshot, at_ms in self.snapshots.add(entries.get("parameters", [])):
                self.columns.of(snapshot.bucket)
                with self._part("freshness"):
                    self.loop.add_snapshot(snapshot, at_ms)
        with self._part("freshness"):
            self.loop.add_clicks(clicked)
        with self._part("click rates"):
            lists = self.rates.add(entries.get("samples", []), newest, now_ms=now_ms, also=self._also)
        shown = [one for one in shown if one.bucket in self.columns]
        with self._part("freshness"):
            first_ms = min((entry.record.timestamp for entry in entries.get("impressions", ())), default=None)
            self.loop.add_reach(first_ms, look.gap)
            self.loop.add_impressions(shown)
            self.loop.measure(now_ms, wall_s=self._clock(), behind=look.behind, known=self.columns)
        with self._part("delays"):
            self.click_delays.add(shown, clicked, now_ms=now_ms)
        with self._part("dead letters"):
            self.letters.add(entries.get("dead-letters", []))
        with self._part("throughput"):
            self.throughput.add(look, lists=lists)

    def _also(self, batch: SampleBatch, entry: WeightedRecord) -> None:
        with self._part("freshness"):
            self.loop.add_samples(batch, entry)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Keep a surprise in one part of the page from the others: it is shown, and the log has the trace."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            again = name in self._broken and self._broken[name][0] == words
            log.log(logging.DEBUG if again else logging.ERROR, "%s cannot be shown", name, exc_info=True)
            self._broken[name] = words, int(self._clock() * 1000)

    def _event(self, entry: WeightedRecord) -> Impression | Click | None:
        """Return an impression or a click, None for what the join makes a dead letter: other bytes, other times."""
        try:
            record = decode(entry.record.value or b"")
        except SchemaError:
            return None
        if isinstance(record, Impression):
            at_ms = record.shown_at_ms
        elif isinstance(record, Click):
            at_ms = record.clicked_at_ms
        else:
            return None
        settings = self.settings
        oldest = entry.record.timestamp - round(settings.horizon_s * 1000) - SKEW_MS
        return record if oldest <= at_ms <= entry.record.timestamp + round(settings.future_s * 1000) else None

    def fail(self, words: str) -> None:
        """Note that the log cannot be read; the first time counts as the beginning of the trouble."""
        with self.lock:
            since = self._trouble[1] if self._trouble else int(self._clock() * 1000)
            self._trouble = words, since
            self.version += 1

    def set_lag(self, report: dict[str, Any] | None, trouble: str = "") -> None:
        """Take a lag report, or the words for why there is none; the last report stays."""
        with self.lock:
            self._lag, self._lag_trouble = report or self._lag, trouble
            self.version += 1

    def sections(self, view: PageView) -> dict[str, Any]:
        """Return the parts of the page for a view; to be called while holding ``lock``."""
        names = self.columns.names
        bucket = view.bucket if view.bucket in names else (names[0] if names else "")
        window = view.window if view.window in self.rates.timelines else self._fitting()
        made: dict[str, Callable[[], Any]] = {
            "now": lambda: {"log": self._look.at_ms, "server": int(self._clock() * 1000)},
            "buckets": lambda: [self._bucket(name) for name in names],
            "ctr": lambda: self.rates.timelines[window],
            "flow": lambda: self.throughput.timelines[window],
            "rates": lambda: {name: short(self.throughput.rates.get(name)) for name in STREAMS},
            "snapshots": self._snapshot_rows,
            "letters": self._letter_rows,
            "lag": self._lag_groups,
            "partitions": self._lag_rows,
            "fresh": lambda: self.loop.rows,
            "freshness": self._freshness,
            **detail(self, bucket, window),
        }
        sections: dict[str, Any] = {}
        for name, make in made.items():
            with self._part(name):
                sections[name] = make()
        return sections | {"status": self._status() | {"window": window}}

    def _fitting(self) -> str:
        """Return the smallest window that holds the data; of a live log half an hour of it, or more to see any."""
        now_ms, newest = self._look.at_ms, now_or(self.rates.newest_ms, self._look.at_ms)
        needed = now_ms - now_or(self.rates.oldest_ms, now_ms)
        if self.consumers:
            needed = max(min(needed, SPAN_MS), now_ms - newest)
        return next((name for name, (width, bins) in WINDOWS.items() if width * (bins - 4) >= needed), "all")

    def _freshness(self) -> dict[str, Any]:
        loop = self.loop
        since = round(loop.since_ms, -4)  # every 10 s is news enough
        return {"since": since, "share": short(loop.share), "tolerance_s": loop.tolerance_s}

    def _status(self) -> dict[str, Any]:
        trouble = self._trouble
        return {
            "source": self.source_name,
            "trouble": trouble[0] if trouble else None,
            "trouble_since": trouble[1] if trouble else None,
            "behind": self._look.behind,
            "waiting": self._look.at_ms == 0,
            "missing": list(self._look.missing),
            "refused": list(self._look.refused),
            "user": self.settings.kafka_username or "",
            "skipped": dict(self._skipped),  # a copy: a page compares it with what it was sent
            "sampled": list(self._look.sampled),
            "share": short(self._look.share, 2),  # of the samples
            "history_share": short(self._look.history_share, 2),
            "prefix": self.settings.topic_prefix,
            "broken": {
                name: list(why) for name, why in self._broken.items() if why[1] > self._clock() * 1000 - SAID_MS
            },
            "consumers": self.consumers,
            "wait_s": self.settings.wait_s,
            "lateness_s": self.settings.lateness_s,
            "newest": self.rates.newest_ms,
            "unreadable": self.rates.unreadable + self.snapshots.unreadable,
        }

    def _bucket(self, name: str) -> list[Any]:
        bucket, snapshot = self.settings.buckets.get(name), self.snapshots.newest.get(name)
        return [name, bucket.algorithm if bucket else snapshot.algorithm if snapshot else ""]

    def _snapshot_rows(self) -> Rows:
        rows = {}
        for name, snapshot in self.snapshots.newest.items():
            moves = self.snapshots.moves[name]
            version = f"{snapshot.epoch}.{snapshot.samples_offset}"
            moved, norm = short(moves.moved[-1]), short(moves.norm[-1])
            rows[name] = [version, snapshot.published_at_ms, snapshot.rounds, norm, moved, snapshot.sha256[:12]]
        return rows

    def _letter_rows(self) -> Rows:
        return {
            str(reason.number): [reason.topic, reason.text, reason.count, reason.first_ms, reason.last_ms]
            for reason in self.letters.reasons.values()
        }

    def _lag_groups(self) -> dict[str, Any]:
        lag = self._lag
        if lag is None:
            return {"trouble": self._lag_trouble, "groups": []}
        names = ("name", "group", "verdict", "reason", "lag", "members")
        groups = [{name: group[name] for name in names} | {"lag_s": short(group["lag_s"])} for group in lag["groups"]]
        about = {"verdict": lag["verdict"], "notes": lag["notes"], "at": lag["at_ms"], "trouble": self._lag_trouble}
        return about | {"groups": groups}

    def _lag_rows(self) -> Rows:
        rows: Rows = {}
        for group in self._lag["groups"] if self._lag else ():
            for one in group["partitions"]:
                seconds = [short(one[name]) for name in ("lag_s", "rate_in", "rate_out", "catch_up_s")]
                kept = one["retention_left_s"]
                hours = None if kept is None else round(kept / 60) * 60
                transaction = one["transaction"]
                rows[f"{group['name']} {one['topic']} {one['partition']}"] = [
                    *(one["verdict"], one["lag"], *seconds, hours, one["committed"], one["end"], one["lost"]),
                    short(transaction["age_s"]) if transaction else None,
                    *(one["reason"], one["note"]),
                ]
        return rows


def now_or(at_ms: int, now_ms: int) -> int:
    """Return a time, now for none."""
    return at_ms or now_ms
