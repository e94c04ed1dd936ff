"""What the page shows, as far as the log was read; each part of it takes what it is about."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from schemas.records import Click, Impression, Snapshot
from streams.dashboard.click_delays import ClickDelays
from streams.dashboard.compare_panel import ComparePanel
from streams.dashboard.freshness import Freshness
from streams.dashboard.letters import Letters
from streams.dashboard.rates import CountedBatch, Rates
from streams.dashboard.snapshots_view import Snapshots
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.dashboard.timeline import Throughput
from streams.events import EventReader
from streams.settings import Settings

log = logging.getLogger(__name__)

SKEW_MS = 60_000
SLACK_S = 300.0  # a sample may come so long after its horizon, when the join is behind
E = TypeVar("E", Impression, Click)


class Page:
    """Everything that the page shows, as far as the log was read; ``consumers`` tells whether anybody can lag.

    Whoever reads it holds its ``lock``, as it does while it changes.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source_name: str,
        consumers: bool,
        clock: Callable[[], float],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.settings, self.source_name, self.consumers = settings, source_name, consumers
        self.clock, self.lock = clock, lock
        self.version = 0  # grows with every news
        self.rates = Rates(settings.buckets)
        self.columns = self.rates.columns
        self.compared = ComparePanel(settings, clock=clock)
        self.snapshots = Snapshots()
        self._reader = EventReader.of(settings)
        self.letters = Letters(self._reader)
        self.throughput = Throughput()
        self.click_delays = ClickDelays(settings.horizon_s)
        self.loop = Freshness(keep_s=settings.horizon_s + SLACK_S)
        self.update = LogUpdate(at_ms=0)  # the newest
        self.skipped: Counter[str] = Counter()
        self.broken: dict[str, tuple[str, int]] = {}  # part of the page -> why it failed, and when
        self.trouble: tuple[str, int] | None = None
        self.lag: dict[str, Any] | None = None
        self.lag_trouble = ""

    def add(self, update: LogUpdate) -> None:
        """Take in what was added to the log: each part of the page what it is about."""
        with self.lock:
            self.update, self.trouble = update, None
            self.skipped.update(update.skipped)
            self._take(update)
            self.version += 1

    def _take(self, update: LogUpdate) -> None:
        entries, now_ms = update.entries, update.at_ms
        published, joined = list[tuple[Snapshot, int]](), list[CountedBatch]()
        impressions, samples = entries.get("impressions", []), entries.get("samples", [])
        late, letters = entries.get("late-clicks", []), entries.get("dead-letters", [])
        clicked = list(self._events(entries.get("clicks", []), Click))
        with self.part("snapshots"):
            published = self.snapshots.add(entries.get("parameters", []))
        for snapshot, at_ms in published:
            self.rates.column(snapshot.bucket)
            with self.part("freshness"):
                taken_ms = snapshot.published_at_ms
                self.loop.add_snapshot(snapshot.bucket, snapshot.version, learned_at_ms=taken_ms, published_at_ms=at_ms)
        with self.part("freshness"):
            for click in clicked:
                self.loop.add_click(click.impression_id, click.clicked_at_ms)
        with self.part("click rates"):
            joined = self.rates.add(samples, self.snapshots.newest, now_ms=now_ms)
        for counted in joined:
            with self.part("freshness"):
                record = counted.entry.record
                self.loop.add_samples(counted.batch, offset=record.offset, at_ms=record.timestamp)
            with self.part("who won"):
                self.compared.add(counted.batch)
        shown = [event for event in self._events(impressions, Impression) if event.bucket in self.columns]
        with self.part("freshness"):
            if impressions:
                self.loop.read_from(min(entry.record.timestamp for entry in impressions))
            if update.gap is not None:
                self.loop.add_gap(*update.gap)
            for event in shown:
                ranked_by = event.ranked_by_epoch, event.ranked_by_offset
                self.loop.add_impression(event.bucket, ranked_by, event.shown_at_ms)
            news = bool(clicked or shown or joined or published)
            wall_s = self.clock()
            self.loop.measure(now_ms, wall_s=wall_s, behind=update.behind, known=self.columns, news=news)
        with self.part("delays"):
            self.click_delays.add(shown, clicked, now_ms=now_ms)
        with self.part("who won"):
            self.compared.add_lost(late, letters)
        with self.part("dead letters"):
            self.letters.add(letters)
        with self.part("throughput"):
            lists = [(counted.entry.record.timestamp, counted.new_lists) for counted in joined]
            self.throughput.add(update, lists=lists)

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

    def _events(self, entries: Iterable[WeightedRecord], kind: type[E]) -> Iterator[E]:
        """Yield the readable events of a log that are dated near their records; others would distort times and delays.

        It is no judgement: of what the join rejects by other rules, some is shown.
        """
        oldest_ms = round(self.settings.horizon_s * 1000) + SKEW_MS
        newest_ms = round(self.settings.future_s * 1000)
        for entry in entries:
            event = self._reader.event_or_none(entry.record.value, kind)
            if event is not None and -oldest_ms <= event.at_ms - entry.record.timestamp <= newest_ms:
                yield event

    def fail(self, words: str) -> None:
        """Note that the log cannot be read; the first time counts as the beginning of the trouble."""
        with self.lock:
            self.trouble = words, self.trouble[1] if self.trouble else int(self.clock() * 1000)
            self.version += 1

    def set_lag(self, report: dict[str, Any] | None, trouble: str = "") -> None:
        """Take a lag report, or the words for why there is none; the last report stays."""
        with self.lock:
            self.lag, self.lag_trouble = report or self.lag, trouble
            self.version += 1
