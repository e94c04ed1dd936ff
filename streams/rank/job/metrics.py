"""The rankers' figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streams.web import Health, Histogram, Metrics

if TYPE_CHECKING:
    from streams.rank.job.ranker import Ranker

QUICK = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1)  # seconds


def latency() -> Histogram:
    """Return a new distribution of the time to rank."""
    return Histogram("glimpse_ranker_rank_seconds", "To order one list of candidates.", ["bucket"], QUICK)


def metrics_of(rankers: Iterable[Ranker]) -> str:
    """Return age, staleness, version, failures and latency of all rankers of a process in Prometheus' text format.

    Of several rankers of one bucket, the state is that of the worst, and counts are those of all.
    """
    metrics, seconds = Metrics(), latency()
    gauges = {
        name: metrics.gauge(f"glimpse_ranker_{name}", text, labels=["bucket"])
        for name, text in {
            "age_seconds": "Seconds since the snapshot in use was published.",
            "stale": "1 when that is more than allowed.",
            "source_up": "1 when the last look for a newer snapshot was answered.",
            "epoch": "Epoch of the snapshot in use.",
            "offset": "Samples offset of the snapshot in use.",
        }.items()
    }
    counts = {
        name: metrics.counter(f"glimpse_ranker_{name}_total", text, labels=["bucket"])
        for name, text in {
            "refused": "Snapshots refused as damaged.",
            "missed": "Looks that the source did not answer.",
        }.items()
    }
    together: dict[str, list[Ranker]] = {}
    for ranker in rankers:
        together.setdefault(ranker.bucket, []).append(ranker)
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
            gauges[name].set(value, bucket=bucket)
        for ranker in some:
            counts["refused"].add(ranker.refused, bucket=bucket)
            counts["missed"].add(ranker.missed, bucket=bucket)
            seconds.merge(ranker.seconds)
    return metrics.render() + "".join(f"{line}\n" for line in seconds.lines())


def health_of(*rankers: Ranker, host: str = "127.0.0.1", port: int = 0) -> Health:
    """Return a web server for /metrics, /livez and /readyz of these rankers, to be started or used in a ``with``.

    Ready says which of them could not look for a newer snapshot; they rank with what they have all the same.
    """

    def ready() -> str | None:
        away = sorted({ranker.bucket for ranker in rankers if not ranker.source_up})
        return f"no answer where the snapshots of {', '.join(away)} are" if away else None

    return Health(live=lambda: None, ready=ready, metrics=lambda: metrics_of(rankers), host=host, port=port)
