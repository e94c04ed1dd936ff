"""glimpse advise at work: the newest events and samples read once, and judged."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console

from learner.browsing import previous_click
from schemas.codec import SchemaError, decode
from schemas.records import Click, Impression
from streams.advise.advice import Advice, BrowsingAdvice, RoundingAdvice, advice_json, advice_view
from streams.advise.browsing import BrowsingWatch, ListColumns
from streams.advise.delays import LEAST, advise_delays
from streams.advise.job.recent import recent_log
from streams.advise.rounding import RoundingLoss
from streams.logs import LogSource, replace_file
from streams.logs.job import open_source
from streams.offline import ListChoice, LogError, Logs, read_own_logs
from streams.settings import EVENTS, Bucket, Settings


def show_advice(
    place: str,
    settings: Settings,
    *,
    since_ms: int | None = None,
    as_json: bool = False,
    metrics_file: Path | None = None,
) -> Advice:
    """Advise on what is logged at ``place``, and show it."""
    with closing(open_source(place, settings)) as source:
        advice = advise(recent_log(source, since_ms), settings, where=place)
    if metrics_file is not None:
        replace_file(metrics_file, advice_metrics(advice))
    if as_json:
        print(advice_json(advice), flush=True)
    else:
        Console().print(advice_view(advice), highlight=False)
    return advice


def advise(source: LogSource, settings: Settings, *, where: str) -> Advice:
    """Return what the logs advise."""
    delays, notes = click_delays(source, settings)
    found = Advice(
        where=where,
        wait_s=settings.wait_s,
        lateness_s=settings.lateness_s,
        delays=advise_delays(delays, wait_s=settings.wait_s, lateness_s=settings.lateness_s),
        notes=notes,
    )
    for name, bucket in settings.buckets.items():
        try:
            logs, _ = read_own_logs(source, settings, ListChoice(buckets=(name,), truncated=True))
        except LogError as error:
            notes.append(str(error))
            continue
        if bucket.examination is not None and bucket.examination.ndim == 2:
            found.browsing[name] = browsing(logs, bucket.examination)
        if logs.contexts is not None and bucket.dim == logs.contexts.shape[2]:
            found.rounding[name] = rounding(logs, bucket)
    return found


def click_delays(source: LogSource, settings: Settings) -> tuple[NDArray[np.float64], list[str]]:
    """Return how many seconds after its list each click came to the log, and what to know.

    Only lists count that are at least one horizon older than the newest record: of others, slow clicks are still to
    come, and the fast ones alone would look like all.
    """
    missing = [topic for topic in EVENTS if not source.has(topic)]
    if missing:
        return np.empty(0), [f"{source.where()} has no {' and no '.join(missing)}: the delays of clicks are not known"]
    shown_at: list[int] = []
    delays: list[int] = []
    newest = 0
    for partition in range(source.partitions("impressions")):
        shown: dict[str, int] = {}
        for block in source.read("impressions", partition, *source.bounds("impressions", partition)):
            for record in block.records():
                newest = max(newest, record.timestamp)
                impression = _event(record.value)
                if isinstance(impression, Impression):
                    shown.setdefault(impression.impression_id, impression.shown_at_ms)
        heard: set[tuple[str, int]] = set()
        for block in source.read("clicks", partition, *source.bounds("clicks", partition)):
            for record in block.records():
                click = _event(record.value)
                newest = max(newest, record.timestamp)
                if not isinstance(click, Click) or click.impression_id not in shown:
                    continue
                if (click.impression_id, click.position) not in heard:
                    heard.add((click.impression_id, click.position))
                    shown_at.append(shown[click.impression_id])
                    delays.append(record.timestamp - shown_at[-1])
    all_delays, ages = np.array(delays) / 1000, newest - np.array(shown_at)
    old = ages >= settings.horizon_s * 1000
    if old.sum() >= LEAST or not len(all_delays):
        return all_delays[old], []
    return all_delays, ["the log is short: young lists count too, so slow clicks are fewer than they will be"]


def _event(value: bytes | None) -> object:
    try:
        return decode(value or b"")
    except SchemaError:
        return None


def browsing(logs: Logs, examination: NDArray[np.float64]) -> BrowsingAdvice:
    """Judge a table on lists in the order in which they were shown."""
    watch = BrowsingWatch(examination)
    deep = len(examination)
    watch.add(ListColumns(logs.items[:, :deep], logs.clicks[:, :deep] > 0, np.minimum(logs.sizes, deep)))
    return BrowsingAdvice(watch.fits[-1] if watch.fits else None, watch.changed_at)


def rounding(logs: Logs, bucket: Bucket) -> RoundingAdvice:
    """Judge a bucket's scale on the contexts that it was shown."""
    assert logs.contexts is not None
    loss = RoundingLoss(bucket.context_scale)
    shown = np.arange(logs.clicks.shape[1]) < logs.sizes[:, None]
    weights = np.ones(shown.shape)
    table = bucket.examination
    if table is not None and table.ndim == 2:
        deep = min(len(table), shown.shape[1])
        last = previous_click(logs.clicks[:, :deep] > 0)
        weights[:, :deep] = table[np.arange(deep), last]
    loss.add(logs.contexts[shown], weights[shown])
    return RoundingAdvice(bucket.context_scale, loss.largest, loss.relative, loss.advised_scale, loss.worth)


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
