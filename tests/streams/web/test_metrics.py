"""Metrics in Prometheus' text format (version 0.0.4)."""

import math
from threading import Thread

import pytest

from streams.web import Metrics


def shown(metrics: Metrics) -> list[str]:
    return [line for line in metrics.render().splitlines() if not line.startswith("#")]


def test_the_text_is_what_prometheus_reads():
    metrics = Metrics()
    refused = metrics.counter("glimpse_refused_total", "Refused\nrecords \\ reasons.", labels=["topic", "reason"])
    refused.add(2, topic="clicks", reason='said "no"\n\\')
    refused.add(topic="clicks", reason='said "no"\n\\')
    lag = metrics.gauge("glimpse_lag_seconds", "How far behind.", labels=["partition"])
    lag.set(1.5, partition=0)
    lag.add(-0.25, partition=0)
    lag.set(math.inf, partition=1)
    lag.set(9, partition=2)
    lag.forget(partition=2)
    assert metrics.render() == (
        "# HELP glimpse_refused_total Refused\\nrecords \\\\ reasons.\n"
        "# TYPE glimpse_refused_total counter\n"
        'glimpse_refused_total{topic="clicks",reason="said \\"no\\"\\n\\\\"} 3\n'
        "# HELP glimpse_lag_seconds How far behind.\n"
        "# TYPE glimpse_lag_seconds gauge\n"
        'glimpse_lag_seconds{partition="0"} 1.25\n'
        'glimpse_lag_seconds{partition="1"} +Inf\n'
    )


def test_a_histogram_counts_at_or_below_each_bound():
    metrics = Metrics()
    took = metrics.histogram("glimpse_round_seconds", "One round.", bounds=[0.1, 1])
    for value in (0.0625, 0.1, 0.5, 7):
        took.observe(value)
    assert shown(metrics) == [
        'glimpse_round_seconds_bucket{le="0.1"} 2',
        'glimpse_round_seconds_bucket{le="1"} 3',
        'glimpse_round_seconds_bucket{le="+Inf"} 4',
        "glimpse_round_seconds_sum 7.6625",
        "glimpse_round_seconds_count 4",
    ]


def test_an_unused_metric_without_labels_shows_zero():
    metrics = Metrics()
    metrics.counter("glimpse_restarts_total", "Restarts.")
    assert shown(metrics) == ["glimpse_restarts_total 0"]


def test_threads_lose_no_count():
    counter = Metrics().counter("glimpse_events_total", "Events.", labels=["topic"])

    def work() -> None:
        for _ in range(2_000):
            counter.add(topic="clicks")

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.get(topic="clicks") == 8_000


def twice(metrics: Metrics) -> None:
    metrics.gauge("glimpse_lag", "Lag.")
    metrics.gauge("glimpse_lag", "Lag.")


MISTAKES = {
    "a counter without _total": (lambda m: m.counter("glimpse_events", "Events."), "_total"),
    "a strange name": (lambda m: m.gauge("glimpse lag", "Lag."), "glimpse lag"),
    "a shrinking count": (lambda m: m.counter("glimpse_events_total", "Events.").add(-1), "only grows"),
    "a missing label": (lambda m: m.gauge("glimpse_lag", "Lag.", labels=["partition"]).set(1), "partition"),
    "an unknown label": (lambda m: m.gauge("glimpse_lag", "Lag.").set(1, topic="clicks"), "topic"),
    "the same name twice": (twice, "already"),
    "bounds out of order": (lambda m: m.histogram("glimpse_s", "S.", bounds=[2, 1]), "ascending"),
}


@pytest.mark.parametrize("mistake, named", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(mistake, named):
    with pytest.raises(ValueError, match=named):
        mistake(Metrics())
