"""glimpse advise at work: the newest events and samples read once, and judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console

from learner.browsing import previous_click
from schemas.records import Click, Impression
from streams.advise.advice import Advice, BrowsingAdvice, advice_json, advice_view
from streams.advise.browsing import ListColumns, changed_at, window_fits
from streams.advise.delays import LEAST, advise_delays
from streams.advise.rounding import RoundingAdvice, advise_scale
from streams.events import EventReader, ShownList
from streams.logs import LogRecord, LogSource, replace_file
from streams.logs.job import open_source
from streams.offline import ListChoice, LogError, Logs, read_own_logs
from streams.settings import EVENTS, Bucket, Settings


def show_advice(
    address: str,
    settings: Settings,
    *,
    since_ms: int | None = None,
    as_json: bool = False,
    metrics_file: Path | None = None,
) -> Advice:
    """Advise on what is logged at ``address``, and show it."""
    with closing(open_source(address, settings)) as source:
        recent = source if since_ms is None else cast(LogSource, RecentLog(source, since_ms))
        advice = advise(recent, settings, where=address)
    if metrics_file is not None:
        replace_file(metrics_file, advice_metrics(advice))
    if as_json:
        print(advice_json(advice), flush=True)
    else:
        Console().print(advice_view(advice), highlight=False)
    return advice


def advise(source: LogSource, settings: Settings, *, where: str) -> Advice:
    """Return what the logs advise."""
    delays, notes = arrival_delays(source, settings)
    advice = Advice(
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
            advice.browsing[name] = browsing(logs, bucket.examination)
        if logs.contexts is not None and bucket.dim == logs.contexts.shape[2]:
            advice.rounding[name] = rounding(logs, bucket)
    return advice


def arrival_delays(source: LogSource, settings: Settings) -> tuple[NDArray[np.float64], list[str]]:
    """Return how many seconds after its list each first click on a position arrived in the log, and what to know.

    The join closes lists by the time stamps of records. So the arrival of a click decides whether it is late, not the
    time at which it was made.

    Only lists count that are at least one horizon older than the newest record: of others, slow clicks are still to
    come, and the fast ones alone would look like all.
    """
    missing = [topic for topic in EVENTS if not source.has(topic)]
    if missing:
        return np.empty(0), [
            f"{source.where()} has no {' and no '.join(missing)}: the arrival delays of clicks are not known"
        ]
    reader = EventReader.of(settings)
    shown_at: list[int] = []
    delays_ms: list[int] = []
    newest = 0

    def records(topic: str, partition: int) -> Iterator[LogRecord]:
        for block in source.read(topic, partition, *source.bounds(topic, partition)):
            yield from block.records()

    for partition in range(source.partitions("impressions")):
        shown: dict[str, ShownList] = {}
        for record in records("impressions", partition):
            newest = max(newest, record.timestamp)
            impression = reader.event_or_none(record.value, Impression)
            if impression is not None:
                shown.setdefault(impression.impression_id, ShownList(impression.shown_at_ms))
        for record in records("clicks", partition):
            newest = max(newest, record.timestamp)
            click = reader.event_or_none(record.value, Click)
            if click is None or click.impression_id not in shown:
                continue
            clicked = shown[click.impression_id]
            if clicked.is_first_click(click.position):
                shown_at.append(clicked.shown_at_ms)
                delays_ms.append(record.timestamp - clicked.shown_at_ms)
    delays, old = np.maximum(delays_ms, 0) / 1000, newest - np.array(shown_at) >= settings.horizon_s * 1000
    if old.sum() >= LEAST or not len(delays):
        return delays[old], []
    return delays, ["the log is short: young lists count too, so slow clicks are fewer than they will be"]


def browsing(logs: Logs, examination: NDArray[np.float64]) -> BrowsingAdvice:
    """Judge a table on lists in the order in which they were shown."""
    deep = len(examination)
    lists = ListColumns(logs.items[:, :deep], logs.clicks[:, :deep] > 0, np.minimum(logs.sizes, deep))
    fits = window_fits(lists, examination)
    return BrowsingAdvice(fits[-1] if fits else None, changed_at(fits))


def rounding(logs: Logs, bucket: Bucket) -> RoundingAdvice:
    """Judge a bucket's scale on the contexts that it was shown."""
    assert logs.contexts is not None
    shown = np.arange(logs.clicks.shape[1]) < logs.sizes[:, None]
    weights = np.ones(shown.shape)
    table = bucket.examination
    if table is not None and table.ndim == 2:
        deep = min(len(table), shown.shape[1])
        weights[:, :deep] = table[np.arange(deep), previous_click(logs.clicks[:, :deep] > 0)]
    return advise_scale(logs.contexts[shown], weights[shown], bucket.context_scale)


def advice_metrics(advice: Advice) -> bytes:
    """Return the exposition of what was found; what is not known is not there."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"glimpse_advise_{name}", text, labels, registry=registry)

    if advice.delays is not None:
        waits, now = advice.delays, advice.delays.now
        gauge("wait_seconds", "The wait that is advised.").set(waits.wait_s)
        gauge("lateness_seconds", "The lateness that is advised.").set(waits.lateness_s)
        gauge("corrected_click_ratio", "Share of clicks that came after their list had closed.").set(now.corrected)
        gauge("lost_click_ratio", "Share of clicks that came after their horizon.").set(now.lost)
    per_bucket = ("bucket",)
    changed = gauge("browsing_changed", "1 when users browse differently than the table in force says.", per_bucket)
    gain = gauge("browsing_gain_ratio", "What the best model gains in perplexity over the table in force.", per_bucket)
    for bucket, browsing in advice.browsing.items():
        if browsing.newest is not None:
            changed.labels(bucket).set(browsing.changed_at is not None)
            gain.labels(bucket).set(browsing.newest.gain)
    loss = gauge("rounding_loss_ratio", "Share of a context's length that rounding takes.", per_bucket)
    for bucket, rounding in advice.rounding.items():
        loss.labels(bucket).set(rounding.relative)
    return generate_latest(registry)


class RecentLog:
    """The part of a log from a time on, as if there were no more of it; the whole source is closed by its owner."""

    def __init__(self, source: LogSource, since_ms: int) -> None:
        self._source, self._since_ms = source, since_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset from the time on, and the end."""
        first, end = self._source.bounds(topic, partition)
        if first == end:
            return first, end
        return min(max(first, self._source.offset_at(topic, partition, self._since_ms)), end), end
