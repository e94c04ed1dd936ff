"""Figures for Prometheus: what the owners of a process have learned, and the learned models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from schemas.records import Snapshot
from streams.parameters import Version, frozen_model
from streams.web import BulkHistogram

MOST_BUCKETS = 100  # with more of them, those first by name are shown, and how many are left out
LARGEST = 512  # the condition of a larger A takes too long

Family = GaugeMetricFamily | CounterMetricFamily


class LearnWatch:
    """Counts what the owners of a process have made durable, also of partitions that are gone; any thread may call.

    ``news`` is called when there may be a newer snapshot.
    """

    def __init__(self, news: Callable[[], None] = lambda: None) -> None:
        self.totals: Counter[str] = Counter()  # rounds, times restored, gaps
        self.counts: dict[int, Counter[str]] = {}  # by partition
        self.models = ModelMetrics()
        self.seconds = BulkHistogram("glimpse_learn_round_seconds", "To learn and publish a round.")
        self._news, self._lock = news, Lock()

    def published(self, snapshot: Snapshot) -> None:
        """Note a durable snapshot."""
        self.models.published(snapshot)
        self._news()

    def count(self, name: str) -> None:
        """Add one to a total."""
        with self._lock:
            self.totals[name] += 1

    def learned(self, partition: int, counts: Mapping[str, int], *, seconds: float | None) -> None:
        """Count what became durable, a round at the head if ``seconds`` are given."""
        with self._lock:
            self.counts.setdefault(partition, Counter()).update(counts)
            if seconds is not None:
                self.totals["rounds"] += 1
                self.seconds.observe(seconds)


class ModelMetrics:
    """What each bucket's newest snapshot says, and how far θ went with it."""

    def __init__(self) -> None:
        self._moved: dict[str, float] = {}
        self._theta: dict[str, tuple[Version, np.ndarray]] = {}
        self._condition: dict[str, tuple[Version, float | None]] = {}

    def published(self, snapshot: Snapshot) -> None:
        """Note a snapshot, to compare θ with the one before."""
        theta = snapshot.theta_array
        before = self._theta.get(snapshot.bucket)
        if before is not None and len(before[1]) == len(theta) and before[0] != snapshot.version:
            self._moved[snapshot.bucket] = float(np.linalg.norm(theta - before[1]))
        self._theta[snapshot.bucket] = snapshot.version, theta

    def look(self, newest: Mapping[str, Snapshot]) -> None:
        """Find the condition of each A that is new: milliseconds to tens of them each, so not on an event loop."""
        for name in sorted(newest)[:MOST_BUCKETS]:
            snapshot, known = newest[name], self._condition.get(name)
            if known is None or known[0] != snapshot.version:
                self._condition[name] = snapshot.version, _condition_of(snapshot)

    def families(self, newest: Mapping[str, Snapshot]) -> Iterator[Family]:
        """Yield the figures of the newest snapshots; the conditions are those of the last look."""
        figures: dict[str, tuple[str, Callable[[Snapshot], float | None]]] = {
            "rounds": ("Net lists in the newest snapshot.", lambda of: of.rounds),
            "offset": ("Samples offset of the newest snapshot.", lambda of: of.samples_offset),
            "epoch": ("Epoch of the newest snapshot.", lambda of: of.epoch),
            "published_timestamp_seconds": (
                "When the newest snapshot was published, since 1970.",
                lambda of: of.published_at_ms / 1000,
            ),
            "theta_norm": ("Length of θ.", lambda of: float(np.linalg.norm(of.theta_array))),
            "theta_moved": ("How far θ went between the last two snapshots.", lambda of: self._moved.get(of.bucket)),
            "gram_condition": (
                "Condition number of A, ridge included: above 1e12 digits of θ are lost.",
                lambda of: self._condition.get(of.bucket, (None, None))[1],
            ),
        }
        shown = [newest[name] for name in sorted(newest)[:MOST_BUCKETS]]
        for name, (text, figure) in figures.items():
            values = {snapshot.bucket: figure(snapshot) for snapshot in shown}
            yield family(GaugeMetricFamily, f"glimpse_snapshot_{name}", text, "bucket", values)
        about = "Buckets that are not shown, to keep pages short."
        yield GaugeMetricFamily("glimpse_snapshot_buckets_left_out", about, len(newest) - len(shown))


def _condition_of(snapshot: Snapshot) -> float | None:
    if not 0 < snapshot.dim <= LARGEST:
        return None
    gram = getattr(frozen_model(snapshot), "gram", None)
    if gram is None:  # pbm-ucb has none
        return None
    values = np.linalg.eigvalsh(gram)
    return float(values[-1] / values[0])


def family(kind: type[Family], name: str, text: str, label: str, values: Mapping[Any, float | None]) -> Family:
    """Return a metric with a value for each label, where there is one."""
    metric = kind(name, text, labels=[label])
    for key, value in values.items():
        if value is not None:
            metric.add_metric([str(key)], value)
    return metric
