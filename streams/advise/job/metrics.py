"""Advice as metrics, in a file for Prometheus' textfile collector."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from streams.advise.advice import Advice


def advice_metrics(advice: Advice) -> bytes:
    """Return the exposition of what was found; what is not known is not there."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"glimpse_advise_{name}", text, labels, registry=registry)

    if advice.delays is not None:
        found = advice.delays
        gauge("wait_seconds", "The wait that is advised.").set(found.wait_s)
        gauge("lateness_seconds", "The lateness that is advised.").set(found.lateness_s)
        gauge("corrected_click_ratio", "Share of clicks that came after their list had closed.").set(
            found.now.corrected
        )
        gauge("lost_click_ratio", "Share of clicks that came after their horizon.").set(found.now.lost)
    changed = gauge("browsing_changed", "1 when users browse differently than the table in force says.", ("bucket",))
    gain = gauge("browsing_gain_ratio", "What the best model gains in perplexity over the table in force.", ("bucket",))
    for bucket, browsing in advice.browsing.items():
        if browsing.newest is not None:
            changed.labels(bucket).set(browsing.changed_at is not None)
            gain.labels(bucket).set(browsing.newest.gain)
    loss = gauge("rounding_loss_ratio", "Share of a context's length that rounding takes.", ("bucket",))
    for bucket, rounding in advice.rounding.items():
        loss.labels(bucket).set(rounding.relative)
    return generate_latest(registry)
