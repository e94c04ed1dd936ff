"""A comparison as metrics, in a file for Prometheus' textfile collector."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from streams.compare.comparison import METRICS, BucketComparison


def comparison_metrics(found: BucketComparison) -> bytes:
    """Return the exposition of rates, lifts, alarms and stops."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"glimpse_compare_{name}", text, labels, registry=registry)

    alarm = gauge("alarm", "1 when a check says that no lift can be believed.", "check")
    alarm.labels("sample_ratio").set(found.sample_ratio["alarm"])
    alarm.labels("join_rate").set(found.join_rate["alarm"])
    stop = gauge("stop", "1 when a bucket is certainly below the guardrail.", "bucket")
    rate = gauge("ctr", "Clicks a list, or the share of lists with a click.", "bucket", "metric")
    low = gauge("lift_low_ratio", "What the lift over the control is at least.", "bucket", "metric")
    high = gauge("lift_high_ratio", "What the lift over the control is at most.", "bucket", "metric")
    for one in found.buckets:
        stop.labels(one.bucket).set(one.bucket in found.stops)
        for metric in METRICS:
            rate.labels(one.bucket, metric).set(one.rates[metric])
            lift = one.lifts[metric] if one.lifts else None
            if lift is not None and lift.high is not None:
                low.labels(one.bucket, metric).set(lift.low)
                high.labels(one.bucket, metric).set(lift.high)
    return generate_latest(registry)
