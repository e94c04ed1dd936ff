"""The learned models' figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from schemas.records import Snapshot
from streams.parameters import Version, frozen_model

MOST_BUCKETS = 100  # with more of them, those first by name are shown, and how many are left out
LARGEST = 512  # the condition of a larger A takes too long


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
                self._condition[name] = snapshot.version, self._condition_of(snapshot)

    def families(self, newest: Mapping[str, Snapshot]) -> Iterator[GaugeMetricFamily]:
        """Yield the figures of the newest snapshots; the conditions are those of the last look."""
        gauges = {
            name: GaugeMetricFamily(f"glimpse_snapshot_{name}", text, labels=["bucket"])
            for name, text in {
                "rounds": "Net lists in the newest snapshot.",
                "offset": "Samples offset of the newest snapshot.",
                "epoch": "Epoch of the newest snapshot.",
                "published_timestamp_seconds": "When the newest snapshot was published, since 1970.",
                "theta_norm": "Length of θ.",
                "theta_moved": "How far θ went between the last two snapshots.",
                "gram_condition": "Condition number of A, ridge included: above 1e12 digits of θ are lost.",
            }.items()
        }
        for name in sorted(newest)[:MOST_BUCKETS]:
            snapshot = newest[name]
            figures = {
                "rounds": snapshot.rounds,
                "offset": snapshot.samples_offset,
                "epoch": snapshot.epoch,
                "published_timestamp_seconds": snapshot.published_at_ms / 1000,
                "theta_norm": float(np.linalg.norm(snapshot.theta_array)),
                "theta_moved": self._moved.get(name),
                "gram_condition": self._condition.get(name, (None, None))[1],
            }
            for figure, value in figures.items():
                if value is not None:
                    gauges[figure].add_metric([name], value)
        yield from gauges.values()
        left_out = max(0, len(newest) - MOST_BUCKETS)
        about = "Buckets that are not shown, to keep pages short."
        yield GaugeMetricFamily("glimpse_snapshot_buckets_left_out", about, left_out)

    def _condition_of(self, snapshot: Snapshot) -> float | None:
        if not 0 < snapshot.dim <= LARGEST:
            return None
        gram = getattr(frozen_model(snapshot), "gram", None)
        if gram is None:  # pbm-ucb has none
            return None
        values = np.linalg.eigvalsh(gram)
        return float(values[-1] / values[0])
