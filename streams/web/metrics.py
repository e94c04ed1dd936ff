"""What Prometheus reads, made with prometheus-client: its families, and a histogram that is fed in bulk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client import generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

__all__ = ["CONTENT_TYPE", "BulkHistogram", "text_of"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class BulkHistogram:
    """A distribution that takes many values at once, counted at or below each bound; any thread may add."""

    def __init__(self, name: str, help: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.help, self.bounds = name, help, (*map(float, bounds), float("inf"))
        if list(self.bounds) != sorted(set(self.bounds)):
            raise ValueError(f"{name} needs ascending bounds, got {bounds}")
        self._names = ["+Inf" if bound == float("inf") else repr(bound).removesuffix(".0") for bound in self.bounds]
        self._counts, self._sum, self._lock = [0] * len(self.bounds), 0.0, Lock()

    def observe(self, value: float) -> None:
        """Count one value."""
        with self._lock:
            self._counts[bisect_left(self.bounds, value)] += 1
            self._sum += value

    def observe_all(self, values: NDArray[np.float64]) -> None:
        """Count many values at once."""
        self._add(np.bincount(np.searchsorted(self.bounds, values), minlength=len(self.bounds)), float(values.sum()))

    def merge(self, other: BulkHistogram) -> None:
        """Add what another one of the same bounds has counted."""
        if self.bounds != other.bounds:
            raise ValueError(f"{self.name} cannot take in {other.name}: other bounds")
        with other._lock:
            counts, total = np.array(other._counts), other._sum
        self._add(counts, total)

    def _add(self, counts: NDArray[np.intp], total: float) -> None:
        with self._lock:
            self._counts = (counts + self._counts).tolist()
            self._sum += total

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Add what was counted to a family, under the values of its labels."""
        with self._lock:
            below, total = np.cumsum(self._counts).tolist(), self._sum
        family.add_metric(labels, list(zip(self._names, below, strict=True)), total)

    def collect(self) -> Iterator[Metric]:
        """Yield it as a registry wants it."""
        family = HistogramMetricFamily(self.name, self.help, labels=[])
        self.add_to(family)
        yield family


class _Page:
    """Families without the times at which they were made: a second series for each, which no rule asks for."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def text_of(families: Iterable[Metric]) -> str:
    """Return families in Prometheus' text format.

    >>> from prometheus_client.core import CounterMetricFamily
    >>> print(text_of([CounterMetricFamily("glimpse_rounds_total", "Rounds.", 3)]), end="")
    # HELP glimpse_rounds_total Rounds.
    # TYPE glimpse_rounds_total counter
    glimpse_rounds_total 3.0
    """
    return generate_latest(_Page(families)).decode()
