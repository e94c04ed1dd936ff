"""A report of lag as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily

from streams.lag.report import LagReport, PartitionLag
from streams.lag.verdict import Verdict
from streams.web import text_of


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
