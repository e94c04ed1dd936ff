"""Lag as Prometheus metrics, served until SIGTERM."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Collection, Iterator
from math import inf
from threading import Event

from prometheus_client.core import GaugeMetricFamily

from streams.broker import log_of_job
from streams.lag.job.reader import LagError, LagReader
from streams.lag.report import LagReport, PartitionLag
from streams.lag.verdict import Verdict, Window
from streams.settings import Settings
from streams.web import Health, text_of

log = logging.getLogger(__name__)


LABELS = ("group", "topic", "partition")
CODES = ", ".join(f"{verdict.severity} {verdict.value}" for verdict in Verdict)
GAUGES: dict[str, tuple[str, Callable[[PartitionLag], float | None]]] = {
    "records": ("Data records that wait.", lambda partition: partition.lag),
    "seconds": ("Age of the first record that waits.", lambda partition: partition.lag_s),
    "committed_offset": ("The offset that was committed.", lambda partition: partition.committed),
    "position_offset": (
        "The offset that was processed to; the join's is beyond its commit.",
        lambda partition: partition.position,
    ),
    "end_offset": ("The last stable offset.", lambda partition: partition.end),
    "offsets_in_per_second": ("How fast the log grows.", lambda partition: partition.rate_in),
    "offsets_out_per_second": ("How fast the group goes on.", lambda partition: partition.rate_out),
    "catch_up_seconds": (
        "Time until nothing waits, +Inf for never.",
        lambda partition: (
            inf
            if partition.catch_up_s is None and None not in (partition.rate_in, partition.rate_out)
            else partition.catch_up_s
        ),
    ),
    "retention_left_seconds": (
        "Time until a record still needed may be deleted.",
        lambda partition: partition.retention_left_s,
    ),
    "lost_records": ("Records deleted before they were read.", lambda partition: partition.lost),
    "open_transaction_seconds": (
        "Age of the transaction that hides the end.",
        lambda partition: partition.transaction.age_s if partition.transaction else 0.0,
    ),
    "verdict_code": (f"The verdict: {CODES}.", lambda partition: partition.verdict.severity),
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
            for partition in group.partitions:
                value = value_of(partition)
                if value is not None:
                    family.add_metric([group.name, partition.topic, str(partition.partition)], value)
        yield family
    members = GaugeMetricFamily("glimpse_lag_group_members", "Consumers that the group has.", labels=["group"])
    for group in report.groups:
        if group.members is not None:
            members.add_metric([group.name], group.members)
    yield members


def serve_lag(
    settings: Settings, *, port: int, groups: Collection[str] = (), window: Window | None = None, every_s: float = 2.0
) -> int:
    """Read lag every ``every_s`` and serve the newest report until SIGTERM or Ctrl-C; return the exit code."""
    log_of_job()
    report, trouble, stop = None, "lag was not read yet", Event()
    health = Health(
        live=lambda: None,
        ready=lambda: trouble or None,
        metrics=lambda: metrics_of(report),
        host=settings.web_host,
        port=port,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("lag on %s/metrics", health.url)
    with health, LagReader(settings, groups=groups, window=window) as reader:
        while not stop.is_set():
            try:
                report, trouble = reader.read(), ""
            except LagError as error:
                if str(error) != trouble:
                    log.warning("%s; trying again", error)
                report, trouble = None, str(error)
            except Exception as error:  # a bug is logged, and must not end the watching
                log.exception("lag cannot be read")
                report, trouble = None, f"{type(error).__name__}: {error}"
            stop.wait(every_s)
    return 0
