"""Loops that a good engineer writes in an hour, with no guarantee at all: what our jobs are measured beside.

Poll, decode, join in a dict, send sample batches, learn them; no transactions, lateness or restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPlace
from fastavro import parse_schema, schemaless_reader
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from learner.browsing import previous_click
from schemas.codec import decode, encode
from schemas.known import PLAIN, SCHEMAS
from schemas.records import Click, Impression, SampleBatch
from streams.learn import samples_of
from streams.settings import Settings, Topics

K, DIM = 12, 10
HEADER = 10  # bytes before the Avro value
BATCH_LISTS = 640  # of one record of samples: half of what a broker takes, as ours
Rows = list[tuple[int, bytes]]  # time stamp and value of each record


class Measured(NamedTuple):
    """What one run took."""

    rate: float  # impressions a second, between 10% and 90% of all events
    cpu_s: float  # per 100,000 impressions, all processes together
    memory_mb: float  # all processes together, at the end


def measured(marks: list[tuple[float, int]], cpu_s: float, memory_bytes: float, lists: int) -> Measured:
    """Return the figures of a run that had done so many events at each mark, all of them at the last.

    Of two logs now one is read further and now the other: impressions alone would tell of a rate that nobody has.
    """
    events = marks[-1][1]
    (t0, n0) = next(mark for mark in marks if mark[1] >= 0.1 * events)
    (t1, n1) = next(mark for mark in marks if mark[1] >= 0.9 * events)
    return Measured(lists * (n1 - n0) / events / (t1 - t0), cpu_s / lists * 100_000, memory_bytes / 1e6)


def kafka_python_loop(settings: Settings, lists: int) -> Measured:
    """Return what kafka-python and our codec take."""
    topics = Topics.of(settings)
    consumer = KafkaConsumer(
        **settings.kafka_options(), group_id=None, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
    )
    places = [TopicPartition(topic, p) for topic in topics.events for p in range(settings.partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    producer = KafkaProducer(**settings.kafka_options(), acks=1, linger_ms=20, batch_size=1 << 19)

    def polls() -> Iterator[Mapping[str, Rows]]:
        while True:
            found: dict[str, Rows] = {}
            for place, records in consumer.poll(timeout_ms=200, max_records=4000).items():
                found.setdefault(place.topic, []).extend((record.timestamp, record.value) for record in records)
            yield found

    def send(batch: SampleBatch) -> None:
        producer.send(topics.samples, encode(batch), key=b"main")

    result = loop(
        settings, lists, polls(), lambda value: decode(value, Impression), lambda value: decode(value, Click), send
    )
    producer.close()
    consumer.close()
    return result


def confluent_loop(settings: Settings, lists: int) -> Measured:
    """Return what confluent-kafka and plain fastavro take."""
    topics = Topics.of(settings)
    options = {"bootstrap.servers": settings.kafka}
    consumer = Consumer(options | {"group.id": "loop", "enable.auto.commit": False, "fetch.message.max.bytes": 8 << 20})
    places = [(topic, p) for topic in topics.events for p in range(settings.partitions)]
    consumer.assign([ConfluentPlace(topic, p, OFFSET_BEGINNING) for topic, p in places])
    producer = Producer(options | {"acks": 1, "linger.ms": 20})
    shown, tapped = parse_schema(PLAIN[Impression]), parse_schema(SCHEMAS[Click])

    def polls() -> Iterator[Mapping[str, Rows]]:
        while True:
            found: dict[str, Rows] = {}
            for message in consumer.consume(4000, 0.2):
                if message.error() is None:
                    found.setdefault(message.topic(), []).append((message.timestamp()[1], message.value()))
            yield found

    def read(schema: Any, cls: type[Any]) -> Callable[[bytes], Any]:
        return lambda value: cls(**schemaless_reader(BytesIO(value[HEADER:]), schema, None))

    def send(batch: SampleBatch) -> None:
        producer.produce(topics.samples, encode(batch), b"main")
        producer.poll(0)

    result = loop(settings, lists, polls(), read(shown, Impression), read(tapped, Click), send)
    producer.flush()
    consumer.close()
    return result


def loop(
    settings: Settings,
    lists: int,
    polls: Iterator[Mapping[str, Rows]],
    read_impression: Callable[[bytes], Impression],
    read_click: Callable[[bytes], Click],
    send: Callable[[SampleBatch], None],
) -> Measured:
    """Join and learn what comes, until so many lists have come and are learned."""
    topics, model = Topics.of(settings), settings.buckets["main"].model()
    shown: dict[str, Impression] = {}
    clicked: dict[str, list[int]] = {}
    done, events, clock, marks = 0, 0, 0, []
    started = time.process_time()
    for found in polls:
        taps = found.get(topics.clicks, [])
        for _, value in taps:
            click = read_click(value)
            clicked.setdefault(click.impression_id, []).append(click.position)
        rows = found.get(topics.impressions, [])
        for _, value in rows:
            impression = read_impression(value)
            shown[impression.impression_id] = impression
        if rows:
            clock, done = max(clock, rows[-1][0]), done + len(rows)
        events += len(rows) + len(taps)
        marks.append((time.monotonic(), events))
        closed = []
        for name, impression in shown.items():  # in the order of time
            if impression.shown_at_ms + settings.wait_s * 1000 > clock and done < lists:
                break
            closed.append(name)
        for start in range(0, len(closed), BATCH_LISTS):
            batch = batch_of([shown.pop(name) for name in closed[start : start + BATCH_LISTS]], clicked)
            send(batch)
            model.learn(samples_of(batch))
        if done >= lists:
            break
    return measured(marks, time.process_time() - started, psutil.Process().memory_info().rss, lists)


def batch_of(impressions: list[Impression], clicked: dict[str, list[int]]) -> SampleBatch:
    """Return closed lists in columns."""
    rewards = np.zeros((len(impressions), K))
    for row, impression in enumerate(impressions):
        for position in clicked.pop(impression.impression_id, ()):
            rewards[row, position - 1] = 1.0
    lists = len(impressions)
    return SampleBatch(
        bucket="main",
        dim=DIM,
        items=b"".join(impression.items for impression in impressions),
        positions=np.tile(np.arange(1, K + 1, dtype=np.uint8), lists).tobytes(),
        last_clicks=previous_click(rewards).astype(np.uint8).tobytes(),
        rewards=rewards.tobytes(),
        contexts=b"".join(impression.contexts for impression in impressions),
        impression_ids=[impression.impression_id for impression in impressions],
        sizes=np.full(lists, K, np.uint8).tobytes(),
        signs=np.ones(lists, np.int8).tobytes(),
        shown_at_ms=np.array([impression.shown_at_ms for impression in impressions], "<i8").tobytes(),
        source_partitions=np.zeros(lists, "<i4").tobytes(),
        source_offsets=np.zeros(lists, "<i8").tobytes(),
        ranked_by_epochs=np.zeros(lists, "<i4").tobytes(),
        ranked_by_offsets=np.zeros(lists, "<i8").tobytes(),
    )
