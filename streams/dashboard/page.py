"""What the page shows, as far as the log was read; each part of it takes what it is about."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression, SampleBatch
from streams.dashboard.click_delays import ClickDelays
from streams.dashboard.compare_panel import ComparePanel
from streams.dashboard.letters import Letters
from streams.dashboard.loop import FreshnessLoop
from streams.dashboard.rates import RateColumns, Rates
from streams.dashboard.snapshots_view import Snapshots
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.dashboard.throughput import Throughput
from streams.settings import Settings

log = logging.getLogger(__name__)

SKEW_MS = 60_000


class Page:
    """Everything that the page shows, as far as the log was read.

    Parameters
    ----------
    consumers
        Whether there is anybody whose lag could be told.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source_name: str,
        consumers: bool = True,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.source_name, self.clock = settings, source_name, clock
        self.consumers = consumers
        self.columns = RateColumns(settings.buckets)
        self.rates = Rates(settings.buckets, self.columns)
        self.compared = ComparePanel(settings, clock=clock)
        self.snapshots = Snapshots()
        self.letters = Letters()
        self.throughput = Throughput()
        self.click_delays = ClickDelays(settings.horizon_s)
        self.loop = FreshnessLoop(settings.horizon_s)
        self.update = LogUpdate(at_ms=0)  # the newest
        self.skipped: dict[str, int] = {}
        self.broken: dict[str, tuple[str, int]] = {}  # part of the page -> why it failed, and when
        self.trouble: tuple[str, int] | None = None
        self.lag: dict[str, Any] | None = None
        self.lag_trouble = ""

    def add(self, update: LogUpdate) -> None:
        """Take in what was added to the log."""
        self.update, self.trouble = update, None
        for topic, count in update.skipped.items():
            self.skipped[topic] = self.skipped.get(topic, 0) + count
        self._take(update)

    def _take(self, update: LogUpdate) -> None:
        """Let each part of the page take what it is about; one that fails is said, and the others go on."""
        entries, now_ms, newest = update.entries, update.at_ms, self.snapshots.newest
        shown = [
            record for record in map(self._event, entries.get("impressions", [])) if isinstance(record, Impression)
        ]
        clicked = [record for record in map(self._event, entries.get("clicks", [])) if isinstance(record, Click)]
        lists: list[tuple[int, float]] = []
        with self.part("snapshots"):
            for snapshot, at_ms in self.snapshots.add(entries.get("parameters", [])):
                self.columns.of(snapshot.bucket)
                with self.part("freshness"):
                    self.loop.add_snapshot(snapshot, at_ms)
        with self.part("freshness"):
            self.loop.add_clicks(clicked)
        with self.part("click rates"):
            lists = self.rates.add(entries.get("samples", []), newest, now_ms=now_ms, also=self._also)
        shown = [one for one in shown if one.bucket in self.columns]
        with self.part("freshness"):
            first_ms = min((entry.record.timestamp for entry in entries.get("impressions", ())), default=None)
            self.loop.add_reach(first_ms, update.gap)
            self.loop.add_impressions(shown)
            self.loop.measure(now_ms, wall_s=self.clock(), behind=update.behind, known=self.columns)
        with self.part("delays"):
            self.click_delays.add(shown, clicked, now_ms=now_ms)
        with self.part("who won"):
            self.compared.add_lost(entries.get("late-clicks", []), entries.get("dead-letters", []))
        with self.part("dead letters"):
            self.letters.add(entries.get("dead-letters", []))
        with self.part("throughput"):
            self.throughput.add(update, lists=lists)

    def _also(self, batch: SampleBatch, entry: WeightedRecord) -> None:
        with self.part("freshness"):
            self.loop.add_samples(batch, entry)
        with self.part("who won"):
            self.compared.add(batch)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Keep a surprise in one part of the page from the others: it is shown, and the log has the trace."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            again = name in self.broken and self.broken[name][0] == words
            log.log(logging.DEBUG if again else logging.ERROR, "%s cannot be shown", name, exc_info=True)
            self.broken[name] = words, int(self.clock() * 1000)

    def _event(self, entry: WeightedRecord) -> Impression | Click | None:
        """Return an impression or a click, None for what the join makes a dead letter: other bytes, other times."""
        try:
            record = decode(entry.record.value or b"")
        except SchemaError:
            return None
        if not isinstance(record, Impression | Click):
            return None
        settings = self.settings
        oldest = entry.record.timestamp - round(settings.horizon_s * 1000) - SKEW_MS
        return record if oldest <= record.at_ms <= entry.record.timestamp + round(settings.future_s * 1000) else None

    def fail(self, words: str) -> None:
        """Note that the log cannot be read; the first time counts as the beginning of the trouble."""
        since = self.trouble[1] if self.trouble else int(self.clock() * 1000)
        self.trouble = words, since

    def set_lag(self, report: dict[str, Any] | None, trouble: str = "") -> None:
        """Take a lag report, or the words for why there is none; the last report stays."""
        self.lag, self.lag_trouble = report or self.lag, trouble
