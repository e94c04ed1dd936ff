"""Records for the dashboard's tests, made and written without the join or the learner."""

from __future__ import annotations

import time

import numpy as np
from kafka import KafkaProducer

from learner.browsing import previous_click
from schemas.codec import encode
from schemas.records import Click, Impression, SampleBatch
from streams.dashboard.job.feed import State
from streams.dashboard.source import WeightedRecord
from streams.logs import LogRecord
from streams.parameters import take_snapshot
from streams.settings import Bucket, Settings, Topics

NOW = 1_700_000_000_000
K, DIM = 6, 4
CLICKED_ONCE = [[1] + [0] * (K - 1)] * 4
CARD = "document.querySelector('[data-bucket=\"{}\"]').innerText"  # what the page says of a bucket


def table() -> np.ndarray:
    distance = np.maximum(np.arange(1, K + 1)[:, None] - np.arange(K), 1)
    return np.tril(0.9 * distance**-0.5)


def buckets(count: int) -> dict[str, Bucket]:
    """Every third one has a table."""
    kinds = [("ubm-linucb", table()), ("c2ucb", None), ("cm-linucb", None)]
    made = [
        Bucket(f"b{number:02}", algorithm=kinds[number % 3][0], dim=DIM, positions=K, examination=kinds[number % 3][1])
        for number in range(count)
    ]
    return {bucket.name: bucket for bucket in made}


def batch(bucket, clicks, shown_at_ms, *, ids=None, signs=None, contexts=None) -> SampleBatch:
    """A sample record of lists of K rows; clicks (n, K) are rewards."""
    clicks = np.asarray(clicks, float)
    lists = len(clicks)
    contexts = np.full((lists, K, DIM), 0.25, "f4") if contexts is None else contexts
    return SampleBatch(
        bucket=bucket,
        dim=DIM,
        items=np.arange(lists * K, dtype="<i8").tobytes(),
        positions=np.tile(np.arange(1, K + 1), lists).astype("u1").tobytes(),
        last_clicks=previous_click(clicks).astype("u1").tobytes(),
        rewards=clicks.astype("<f8").tobytes(),
        contexts=contexts.astype("<f4").tobytes(),
        impression_ids=ids or [f"{bucket}-{shown_at_ms}-{number}" for number in range(lists)],
        sizes=np.full(lists, K, "u1").tobytes(),
        signs=np.ones(lists, "i1").tobytes() if signs is None else np.array(signs, "i1").tobytes(),
        shown_at_ms=np.broadcast_to(np.array(shown_at_ms, "<i8"), lists).tobytes(),
        source_partitions=np.zeros(lists, "<i4").tobytes(),
        source_offsets=np.arange(lists, dtype="<i8").tobytes(),
        ranked_by_epochs=np.zeros(lists, "<i4").tobytes(),
        ranked_by_offsets=np.full(lists, -1, "<i8").tobytes(),
    )


def impression(name, bucket, shown_at_ms, ranked_by=(0, -1)) -> Impression:
    items, contexts = np.arange(K, dtype="<i8").tobytes(), np.full(K * DIM, 0.25, "<f4").tobytes()
    return Impression(name, f"s-{name}", bucket, "u", shown_at_ms, items, contexts, K, *ranked_by)


def snapshot(bucket, *, offset, at_ms, model=None):
    """A whole snapshot of a fresh or given model."""
    return take_snapshot(
        model or bucket.model(), bucket, samples_offset=offset, topic_id="t", partition=0, published_at_ms=at_ms
    )


class Writer:
    """Puts records onto the topics with time stamps of their own."""

    def __init__(self, settings):
        self.topics = Topics.of(settings)
        self.producer = KafkaProducer(bootstrap_servers=settings.kafka, acks="all")

    def put(self, topic, record, at_ms, partition=0):
        self.producer.send(
            getattr(self.topics, topic), encode(record), key=b"k", partition=partition, timestamp_ms=at_ms
        )

    def lists(self, bucket, clicks, at_ms, *, partition=0):
        self.put("samples", batch(bucket, clicks, at_ms), at_ms, partition)

    def done(self):
        self.producer.flush(20)


def now_ms():
    return int(time.time() * 1000)


def state(count=3):
    """What a page would show of a log, at NOW."""
    return State(Settings(buckets=buckets(count)), source_name="a log", clock=lambda: NOW / 1000)


def loop_of(count, *, impressions_from=0):
    """One clicked list a second: joined after 60 s, learned and published at once, served 2 s later."""
    made: dict[str, list[WeightedRecord]] = {topic: [] for topic in ("impressions", "clicks", "samples", "parameters")}
    for second in range(count):
        at = NOW + second * 1000
        shown = impression(f"i{second}", "b00", at, ranked_by=(1, max(0, second - 62)))
        if second >= impressions_from:
            made["impressions"].append(WeightedRecord(0, LogRecord(second, at, b"", encode(shown))))
        made["clicks"].append(WeightedRecord(0, LogRecord(second, at, b"", encode(Click(f"i{second}", "s", 1, at)))))
        if second >= 60:
            joined = batch("b00", [[1] + [0] * 5], at - 60_000, ids=[f"i{second - 60}"])
            made["samples"].append(WeightedRecord(0, LogRecord(second - 60, at, b"", encode(joined))))
        if second >= 60 or not second:
            version = snapshot(buckets(1)["b00"], offset=max(0, second - 59), at_ms=at)
            made["parameters"].append(WeightedRecord(0, LogRecord(second, at, b"", encode(version))))
    return made
