"""The ranking service's figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.rank.job.metrics import metrics_of
from streams.web import text_of

if TYPE_CHECKING:
    from streams.rank.job.service import RankService


def service_metrics(service: RankService, answers: Mapping[tuple[str, int], int]) -> str:
    """Return the figures of the rankers, of the events that wait for Kafka, and of the answers given."""
    return metrics_of(service.models.rankers.values()) + text_of(_families(service, answers))


def _families(service: RankService, answers: Mapping[tuple[str, int], int]) -> Iterator[Metric]:
    queue, models = service.queue, service.models
    given = CounterMetricFamily("glimpse_serve_answers_total", "Answers by path and status.", labels=["path", "status"])
    for (path, status), count in sorted(answers.items()):
        given.add_metric([path, str(status)], count)
    yield given
    yield from service.seconds.collect()
    counts = {
        "events_delivered": ("Events that Kafka has.", queue.delivered),
        "events_refused": ("Events refused, as too many waited for Kafka.", queue.refused),
        "events_lost": ("Events that Kafka will never take.", queue.lost),
        "lists_unlogged": ("Lists that were answered but not logged, as too many events waited.", service.unlogged),
        "lists_for_strangers": ("Lists for users without features.", service.strangers),
        "catalogues_refused": ("Catalogues that could not be used.", models.catalogues_refused),
    }
    for name, (words, count) in counts.items():
        yield CounterMetricFamily(f"glimpse_serve_{name}_total", words, count)
    held = models.catalogue
    gauges = {
        "waiting_bytes": ("Bytes of events that wait for Kafka.", queue.waiting_bytes),
        "kafka_up": ("1 when the newest events could be sent.", queue.connected),
        "fresh_buckets": ("Buckets without any snapshot yet.", len(models.buckets) - len(models.rankers)),
        "held_items": ("Items of the catalogue.", 0 if held is None else len(held.items)),
    }
    for name, (words, value) in gauges.items():
        yield GaugeMetricFamily(f"glimpse_serve_{name}", words, value)
