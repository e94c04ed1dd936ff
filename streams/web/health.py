"""What an orchestrator and Prometheus ask a job for: /livez, /readyz and /metrics, and what stands behind them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from types import SimpleNamespace

import numpy as np
from aiohttp import web
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client import generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from streams.web.server import WebServer

__all__ = ["CONTENT_TYPE", "SECONDS", "STUCK_S", "BulkHistogram", "Health", "StuckCheck", "text_of", "verdict"]

Check = Callable[[], str | None]  # None when all is well, else what is wrong
STUCK_S = 60.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Health(WebServer):
    """What an orchestrator and Prometheus ask for: 200 while a check says nothing, 503 and its words when it does."""

    def __init__(
        self, *, live: Check, ready: Check, metrics: Callable[[], str], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        super().__init__("health", host=host, port=port)
        self._checks, self._metrics = {"/livez": live, "/readyz": ready}, metrics

    async def page(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return what a check says, or the figures."""
        if request.path == "/metrics":
            return web.Response(body=self._metrics().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.path in self._checks:
            status, text = verdict(self._checks[request.path]())
            return web.Response(status=status, text=text)
        raise web.HTTPNotFound(text="not here; try /livez /readyz /metrics\n")


def verdict(problem: str | None) -> tuple[int, str]:
    """Return the status and text of a check.

    >>> verdict(None), verdict("no partition assigned")
    ((200, 'ok\\n'), (503, 'no partition assigned\\n'))
    """
    return (200, "ok\n") if problem is None else (503, f"{problem}\n")


class StuckCheck:
    """Tells which partitions have lag and have not moved for a minute.

    >>> now = [0.0]
    >>> check = StuckCheck(clock=lambda: now[0])
    >>> for now[0] in (0.0, 61.0):
    ...     check.note({3: 17}, lagging=lambda partition: True)
    >>> check.stuck()
    'partitions [3] have lag and have not moved for 60 s'
    """

    def __init__(self, *, after_s: float = STUCK_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._after_s = clock, after_s
        self._stood: dict[int, tuple[int | None, float]] = {}  # its offset, and since when it is there with lag

    def note(self, offsets: Mapping[int, int | None], *, lagging: Callable[[int], bool]) -> None:
        """Note where each partition is; those that are not named any more are forgotten."""
        now, before = self._clock(), self._stood
        self._stood = {
            partition: before[partition]
            if partition in before and before[partition][0] == offset and lagging(partition)
            else (offset, now)
            for partition, offset in offsets.items()
        }

    def stuck(self) -> str | None:
        """Return which partitions stand still, in words, or None."""
        now = self._clock()
        partitions = [partition for partition, (_, since) in self._stood.items() if now - since > self._after_s]
        return f"partitions {partitions} have lag and have not moved for {self._after_s:g} s" if partitions else None


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


def text_of(families: Iterable[Metric]) -> str:
    """Return families in Prometheus' text format, without when they were made: series that no rule asks for.

    >>> from prometheus_client.core import CounterMetricFamily
    >>> print(text_of([CounterMetricFamily("glimpse_rounds_total", "Rounds.", 3)]), end="")
    # HELP glimpse_rounds_total Rounds.
    # TYPE glimpse_rounds_total counter
    glimpse_rounds_total 3.0
    """
    page = list(families)
    for family in page:
        family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    return generate_latest(SimpleNamespace(collect=lambda: page)).decode()
