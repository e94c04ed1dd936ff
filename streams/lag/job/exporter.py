"""Lag as Prometheus metrics, served until SIGTERM."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Collection, Iterator
from threading import Event

from prometheus_client.core import GaugeMetricFamily

from streams.broker import log_of_job
from streams.lag.job.reader import LagError, LagReader
from streams.lag.report import LagReport, PartitionLag
from streams.lag.verdict import Verdict, Window
from streams.settings import Settings
from streams.web import Health, text_of

log = logging.getLogger(__name__)


def _catch_up(one: PartitionLag) -> float | None:
    if one.rate_in is None or one.rate_out is None:
        return one.catch_up_s
    return float("inf") if one.catch_up_s is None else one.catch_up_s


def _age(one: PartitionLag) -> float:
    return one.transaction.age_s if one.transaction else 0.0


LABELS = ("group", "topic", "partition")
CODES = ", ".join(f"{verdict.severity} {verdict.value}" for verdict in Verdict)
GAUGES: dict[str, tuple[str, Callable[[PartitionLag], float | None]]] = {
    "records": ("Data records that wait.", lambda one: one.lag),
    "seconds": ("Age of the first record that waits.", lambda one: one.lag_s),
    "committed_offset": ("The offset that was committed.", lambda one: one.committed),
    "position_offset": ("The offset that was processed to; the join's is beyond its commit.", lambda one: one.position),
    "end_offset": ("The last stable offset.", lambda one: one.end),
    "offsets_in_per_second": ("How fast the log grows.", lambda one: one.rate_in),
    "offsets_out_per_second": ("How fast the group goes on.", lambda one: one.rate_out),
    "catch_up_seconds": ("Time until nothing waits, +Inf for never.", _catch_up),
    "retention_left_seconds": ("Time until a record still needed may be deleted.", lambda one: one.retention_left_s),
    "lost_records": ("Records deleted before they were read.", lambda one: one.lost),
    "open_transaction_seconds": ("Age of the transaction that hides the end.", _age),
    "verdict_code": (f"The verdict: {CODES}.", lambda one: one.verdict.severity),
}


def metrics_of(report: LagReport | None) -> str:
    """Return a report in Prometheus' text format; without one only that there is none. What is not known is left out.

    >>> print(metrics_of(None), end="")
    # HELP glimpse_lag_up 1 when Kafka could be asked for lag at the last try.
    # TYPE glimpse_lag_up gauge
    glimpse_lag_up 0.0
    """
    return text_of(_families(report))


def _families(report: LagReport | None) -> Iterator[GaugeMetricFamily]:
    about = "1 when Kafka could be asked for lag at the last try."
    yield GaugeMetricFamily("glimpse_lag_up", about, report is not None)
    if report is None:
        return
    for name, (text, value_of) in GAUGES.items():
        family = GaugeMetricFamily(f"glimpse_lag_{name}", text, labels=LABELS)
        for group in report.groups:
            for one in group.partitions:
                value = value_of(one)
                if value is not None:
                    family.add_metric([group.name, one.topic, str(one.partition)], value)
        yield family
    members = GaugeMetricFamily("glimpse_lag_group_members", "Consumers that the group has.", labels=["group"])
    for group in report.groups:
        if group.members is not None:
            members.add_metric([group.name], group.members)
    yield members


class LagExporter:
    """Looks at lag every so often, and answers Prometheus with the newest report."""

    def __init__(
        self,
        settings: Settings,
        *,
        port: int = 0,
        groups: Collection[str] = (),
        window: Window | None = None,
        every_s: float = 2.0,
    ) -> None:
        self.every_s = every_s
        self.report: LagReport | None = None
        self.trouble: str | None = "lag was not read yet"
        self._reader = LagReader(settings, groups=groups, window=window)
        self.health = Health(
            live=lambda: None,
            ready=lambda: self.trouble,
            metrics=lambda: metrics_of(self.report),
            host=settings.web_host,
            port=port,
        )

    def look(self) -> None:
        """Read lag once; what goes wrong is kept for the page."""
        try:
            self.report, self.trouble = self._reader.read(), None
        except LagError as error:
            if str(error) != self.trouble:
                log.warning("%s; trying again", error)
            self.report, self.trouble = None, str(error)
        except Exception as error:  # a surprise is said, and must not end the watching
            log.exception("lag cannot be read")
            self.report, self.trouble = None, f"{type(error).__name__}: {error}"

    def run(self, stop: Event) -> None:
        """Look until told to stop."""
        with self.health, self._reader:
            while not stop.is_set():
                self.look()
                stop.wait(self.every_s)


def serve_lag(
    settings: Settings, *, port: int, groups: Collection[str] = (), window: Window | None = None, every_s: float = 2.0
) -> int:
    """Serve lag until SIGTERM or Ctrl-C; return the exit code."""
    log_of_job()
    exporter, stop = LagExporter(settings, port=port, groups=groups, window=window, every_s=every_s), Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("lag on %s/metrics", exporter.health.url)
    exporter.run(stop)
    return 0
