"""Figures of the rankers and of the ranking service for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from streams.web import BulkHistogram, Health, text_of

if TYPE_CHECKING:
    from streams.rank.job.ranker import Ranker
    from streams.rank.job.service import RankService

QUICK = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1)  # seconds
LATENCY = ("glimpse_ranker_rank_seconds", "To order one list of candidates.")


def latency() -> BulkHistogram:
    """Return a new distribution of the time to rank."""
    return BulkHistogram(*LATENCY, QUICK)


def metrics_of(rankers: Iterable[Ranker]) -> str:
    """Return age, staleness, version, failures and latency of all rankers of a process in Prometheus' text format.

    Of several rankers of one bucket, the state is that of the worst, and counts are those of all.
    """
    together: dict[str, list[Ranker]] = {}
    for ranker in rankers:
        together.setdefault(ranker.bucket, []).append(ranker)
    return text_of(_ranker_families(together))


def _ranker_families(together: dict[str, list[Ranker]]) -> Iterator[Metric]:
    gauges = {
        name: GaugeMetricFamily(f"glimpse_ranker_{name}", text, labels=["bucket"])
        for name, text in {
            "age_seconds": "Seconds since the snapshot in use was published.",
            "stale": "1 when that is more than allowed.",
            "source_up": "1 when the last look for a newer snapshot was answered.",
            "epoch": "Epoch of the snapshot in use.",
            "offset": "Samples offset of the snapshot in use.",
        }.items()
    }
    refused = CounterMetricFamily("glimpse_ranker_refused_total", "Snapshots refused as damaged.", labels=["bucket"])
    missed = CounterMetricFamily(
        "glimpse_ranker_missed_total", "Looks that the source did not answer.", labels=["bucket"]
    )
    took = HistogramMetricFamily(*LATENCY, labels=["bucket"])
    for bucket, some in together.items():
        epoch, offset = min(ranker.version for ranker in some)
        figures = {
            "age_seconds": max(ranker.age_s for ranker in some),
            "stale": any(ranker.stale for ranker in some),
            "source_up": all(ranker.source_up for ranker in some),
            "epoch": epoch,
            "offset": offset,
        }
        for name, value in figures.items():
            gauges[name].add_metric([bucket], value)
        refused.add_metric([bucket], sum(ranker.refused for ranker in some))
        missed.add_metric([bucket], sum(ranker.missed for ranker in some))
        seconds = latency()
        for ranker in some:
            seconds.merge(ranker.seconds)
        seconds.add_to(took, [bucket])
    yield from (*gauges.values(), refused, missed, took)


def health_of(*rankers: Ranker, host: str = "127.0.0.1", port: int = 0) -> Health:
    """Return a web server for /metrics, /livez and /readyz of these rankers, to be started or used in a ``with``.

    Ready says which of them could not look for a newer snapshot; they rank with what they have all the same.
    """

    def ready() -> str | None:
        away = sorted({ranker.bucket for ranker in rankers if not ranker.source_up})
        return f"no answer where the snapshots of {', '.join(away)} are" if away else None

    return Health(live=lambda: None, ready=ready, metrics=lambda: metrics_of(rankers), host=host, port=port)


def service_metrics(service: RankService, answers: Mapping[tuple[str, int], int]) -> str:
    """Return the figures of the rankers, of the events that wait for Kafka, and of the answers given."""
    return metrics_of(service.models.rankers.values()) + text_of(_service_families(service, answers))


def _service_families(service: RankService, answers: Mapping[tuple[str, int], int]) -> Iterator[Metric]:
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
