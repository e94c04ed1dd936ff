"""The join's figures for Prometheus."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from schemas.records import DeadLetter
from streams.join.commit import Ledger
from streams.join.outbox import Checkpoint
from streams.logs import QUOTED
from streams.settings import EVENTS, LogPair
from streams.web import SECONDS, BulkHistogram, text_of

DELAYS = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 450, 600, 720, 900, 1080, 1200, 1500, 1800, 3600, 14_400)
AFTER_WAIT = (0, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400)
MOST_REASONS = 50
IMPRESSIONS = {"lists": "joined", "duplicates": "duplicate", "too_late": "too_late", "dead_impressions": "dead"}
CLICKS = {"used": "used", "repeated": "repeated", "late": "late", "dead_clicks": "dead"}
# After quoted text goes whatever has a digit in it, and what is called not a number.
_NUMBER = re.compile(r"\S*\d\S*|[-+]?\b(?:nan|inf)\b", re.IGNORECASE)


class JoinMetrics:
    """The health of a join worker: what became of every event, and how long things took.

    Counters count what this process has done, and stay when a partition goes to another worker: so they never fall,
    and the sum over workers counts nothing twice. The ledger, which goes on where it was after a restart, is a gauge.
    """

    def __init__(self, topics: LogPair[str] = EVENTS, *, wait_s: float = 600.0, lateness_s: float = 600.0) -> None:
        self._log_of = dict(topics.paired_with(EVENTS))
        self._registry = registry = CollectorRegistry()  # of this worker alone: a test has several in one process

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"glimpse_join_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(f"glimpse_join_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, bounds: Sequence[float] = SECONDS) -> BulkHistogram:
            made = BulkHistogram(f"glimpse_join_{name}", help, bounds)
            registry.register(made)
            return made

        self._events = counter("events_total", "Events read.", "partition", "log")
        self._impressions = counter("impressions_total", "Impressions by what became of them.", "partition", "fate")
        self._clicks = counter("clicks_total", "Clicks by what became of them.", "partition", "fate")
        self._corrections = counter("corrections_total", "Samples corrected by a click that came late.", "partition")
        self._early = counter("early_clicks_total", "Clicks that were read before their list.", "partition")
        self._orphans = counter("orphan_clicks_total", "Late clicks whose list was never seen.", "partition")
        self._ledger = gauge(
            "ledger_events", "What became of all events so far, by every worker.", "partition", "count"
        )
        self._open = gauge("open_lists", "Lists that are not closed yet.", "partition")
        self._kept = gauge("kept_lists", "Lists in memory, open or closed.", "partition")
        self._waiting = gauge("waiting_clicks", "Clicks whose list has not come.", "partition")
        self._behind = gauge("lag_offsets", "Offsets not joined yet.", "partition", "log")
        self._refused = counter("dead_letters_total", "Events refused, by reason.", "log", "reason")
        horizon_s = wait_s + lateness_s
        turns = (wait_s, wait_s + lateness_s / 4, wait_s + lateness_s / 2, horizon_s)  # where a click's fate changes
        self._click_delay = histogram(
            "click_delay_seconds",
            "From a list being shown to the first click on a position of it.",
            sorted({*DELAYS, *turns}),
        )
        self._join_delay = histogram(
            "delay_seconds",
            "From a list being shown to its sample being written: at least the wait.",
            [wait_s + more for more in AFTER_WAIT],
        )
        self._commits = counter("commits_total", "Transactions committed.")
        self._failures = counter("failures_total", "Times it began again from the commits.")
        self._seconds = histogram("commit_seconds", "How long a transaction took.")
        self._largest = gauge("largest_commit_bytes", "Bytes of records in the largest transaction so far.")
        self._largest_bytes = 0
        self._reasons: set[str] = set()
        self._last: dict[int, dict[str, int]] = {}  # the ledger of each partition as it was counted

    def committed(self, seconds: float, record_bytes: int) -> None:
        """Note a transaction."""
        self._commits.inc()
        self._seconds.observe(seconds)
        self._largest_bytes = max(self._largest_bytes, record_bytes)
        self._largest.set(self._largest_bytes)

    def failed(self) -> None:
        """Note that it began again."""
        self._failures.inc()

    def opened(self, partition: int, ledger: Ledger) -> None:
        """Note where a partition stands when it comes here; its figures are there from now on."""
        self._last[partition] = ledger.counts()
        self._count(partition, ledger)
        for counter in (self._early, self._orphans):
            counter.labels(partition)  # there from now on, at 0

    def checkpoint(
        self, partition: int, checkpoint: Checkpoint, *, kept: int, behind: LogPair[int], now_ms: int
    ) -> None:
        """Take in what one partition has written."""
        self._count(partition, checkpoint.commit.ledger)
        self._early.labels(partition).inc(checkpoint.early_clicks)
        self._orphans.labels(partition).inc(checkpoint.orphan_clicks)
        self.stands(partition, kept=kept, behind=behind)
        self._count_refusals(checkpoint.dead_letters)
        for batch in checkpoint.samples:
            if not (batch.signs_array < 0).any():  # a correction says nothing about how fast the join is
                self._join_delay.observe_all((now_ms - batch.shown_at_ms_array) / 1000)
        self._click_delay.observe_all(checkpoint.click_delays_ms / 1000)

    def stands(self, partition: int, *, kept: int, behind: LogPair[int]) -> None:
        """Note how many lists are in memory, and how many offsets of the two logs are still to be joined."""
        self._kept.labels(partition).set(kept)
        for log, offsets in EVENTS.paired_with(behind):
            self._behind.labels(partition, log).set(offsets)

    def _count(self, partition: int, ledger: Ledger) -> None:
        counts, last = ledger.counts(), self._last.setdefault(partition, Ledger().counts())
        more = {name: count - last[name] for name, count in counts.items()}
        self._last[partition] = counts
        for log in EVENTS:
            self._events.labels(partition, log).inc(more[log])
        for name, fate in IMPRESSIONS.items():
            self._impressions.labels(partition, fate).inc(more[name])
        for name, fate in CLICKS.items():
            self._clicks.labels(partition, fate).inc(more[name])
        self._corrections.labels(partition).inc(more["corrections"])
        for name, count in counts.items():
            self._ledger.labels(partition, name).set(count)
        self._open.labels(partition).set(ledger.open)
        self._waiting.labels(partition).set(ledger.waiting)

    def _count_refusals(self, letters: Iterable[DeadLetter]) -> None:
        for (topic, full_reason), count in collections.Counter(
            (letter.topic, letter.reason) for letter in letters
        ).items():
            reason = label_of(full_reason)
            if reason not in self._reasons and len(self._reasons) >= MOST_REASONS:
                reason = "other"
            self._reasons.add(reason)
            self._refused.labels(self._log_of[topic], reason).inc(count)

    def forget(self, partition: int) -> None:
        """Drop the state of a partition that another worker has now; what was done here stays counted."""
        self._last.pop(partition, None)
        for family in (self._ledger, self._open, self._kept, self._waiting, self._behind):
            family.remove_by_labels({"partition": str(partition)})

    def render(self) -> str:
        """Return everything in Prometheus' text format."""
        return text_of(self._registry.collect())


def label_of(reason: str) -> str:
    """Return the gist of a refusal: its first clause without names and numbers, so that few labels come of it.

    >>> label_of("position 14 is beyond the list of 12; check the producer")
    'position is beyond the list of'
    >>> label_of("too late: its horizon had passed 7.5 s before it came")
    'too late'
    >>> label_of(r"impression 'web:o\\'b;1' has other content than at offset 7; the lower offset wins")
    'impression has other content than at offset'
    """
    clause = re.split(r"[;:]", re.sub(QUOTED, " ", reason), maxsplit=1)[0]
    return " ".join(_NUMBER.sub(" ", clause).split())[:60] or "other"
