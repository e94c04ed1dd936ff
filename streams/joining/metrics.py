"""Cuts of a join in, its figures for Prometheus out."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from schemas.records import DeadLetter
from streams.join import Cut
from streams.metrics import Metrics

DELAYS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 14_400.0)
MOST_REASONS = 50
IMPRESSIONS = {"lists": "joined", "duplicates": "duplicate", "too_late": "too_late", "dead_impressions": "dead"}
CLICKS = {"used": "used", "repeated": "repeated", "late": "late", "dead_clicks": "dead"}
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|\S*\d\S*")


class JoinMetrics:
    """The health of a join worker: what became of every event, and how long things took.

    Totals are the ledger's, so they go on where they were after a restart; refusals by reason and the histograms count
    from the start of the process.
    """

    def __init__(self) -> None:
        self._metrics = metrics = Metrics()
        fate = ("partition", "fate")
        self._impressions = metrics.counter(
            "glimpse_join_impressions_total", "Impressions by what became of them.", fate
        )
        self._clicks = metrics.counter("glimpse_join_clicks_total", "Clicks by what became of them.", fate)
        self._corrections = metrics.counter(
            "glimpse_join_corrections_total", "Samples corrected by a click that came late.", ["partition"]
        )
        self._open = metrics.gauge("glimpse_join_open_lists", "Lists that are not closed yet.", ["partition"])
        self._kept = metrics.gauge("glimpse_join_kept_lists", "Lists in memory, open or closed.", ["partition"])
        self._waiting = metrics.gauge("glimpse_join_waiting_clicks", "Clicks whose list has not come.", ["partition"])
        self._behind = metrics.gauge("glimpse_join_lag_offsets", "Offsets not joined yet.", ["partition", "log"])
        self._refused = metrics.counter(
            "glimpse_join_dead_letters_total", "Events refused, by reason.", ["log", "reason"]
        )
        self._click_delay = metrics.histogram(
            "glimpse_join_click_delay_seconds", "From a list being shown to a click on it.", bounds=DELAYS
        )
        self._join_delay = metrics.histogram(
            "glimpse_join_delay_seconds", "From a list being shown to its sample being written.", bounds=DELAYS
        )
        self._commits = metrics.counter("glimpse_join_commits_total", "Transactions committed.")
        self._failures = metrics.counter("glimpse_join_failures_total", "Times it began again from the commits.")
        self._seconds = metrics.histogram("glimpse_join_commit_seconds", "How long a transaction took.")
        self._reasons: set[str] = set()

    def committed(self, seconds: float) -> None:
        """Note a transaction."""
        self._commits.add()
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """Note that it began again."""
        self._failures.add()

    def cut(self, partition: int, cut: Cut, *, kept: int, behind: tuple[int, int], now_ms: int) -> None:
        """Take in what one partition has written."""
        ledger = cut.commit.ledger
        counts = ledger.counts()
        for name, fate in IMPRESSIONS.items():
            self._impressions.set(counts[name], partition=partition, fate=fate)
        for name, fate in CLICKS.items():
            self._clicks.set(counts[name], partition=partition, fate=fate)
        self._corrections.set(ledger.corrections, partition=partition)
        self._open.set(ledger.open, partition=partition)
        self._waiting.set(ledger.waiting, partition=partition)
        self._kept.set(kept, partition=partition)
        for log, offsets in zip(("impressions", "clicks"), behind, strict=True):
            self._behind.set(offsets, partition=partition, log=log)
        self._count_refusals(cut.dead_letters)
        for batch in cut.samples:
            if not (batch.signs_array < 0).any():  # a correction says nothing about how fast the join is
                self._join_delay.observe_all((now_ms - batch.shown_at_ms_array) / 1000)
        self._click_delay.observe_all(np.maximum(cut.click_delays_ms, 0) / 1000)

    def _count_refusals(self, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            reason = label_of(letter.reason)
            if reason not in self._reasons and len(self._reasons) >= MOST_REASONS:
                reason = "other"
            self._reasons.add(reason)
            self._refused.add(log="clicks" if letter.topic.endswith("clicks") else "impressions", reason=reason)

    def forget(self, partition: int) -> None:
        """Drop the figures of a partition that another worker has now."""
        for fate in IMPRESSIONS.values():
            self._impressions.forget(partition=partition, fate=fate)
        for fate in CLICKS.values():
            self._clicks.forget(partition=partition, fate=fate)
        for family in (self._corrections, self._open, self._kept, self._waiting):
            family.forget(partition=partition)
        for log in ("impressions", "clicks"):
            self._behind.forget(partition=partition, log=log)

    def render(self) -> str:
        """Return everything in Prometheus' text format."""
        return self._metrics.render()


def label_of(reason: str) -> str:
    """Return the gist of a refusal: its first clause without names and numbers, so that few labels come of it.

    >>> label_of("position 14 is beyond the list of 12; check the producer")
    'position is beyond the list of'
    >>> label_of("too late: its horizon had passed 7.5 s before it came")
    'too late'
    """
    clause = re.split(r"[;:]", reason, maxsplit=1)[0]
    return " ".join(_VARIES.sub(" ", clause).split())[:60] or "other"
