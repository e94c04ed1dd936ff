"""Simulated or recorded events, written to the topics of a running Glimpse at a rate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
from kafka import TopicPartition
from kafka.errors import KafkaError
from msgspec.structs import replace
from numpy.typing import NDArray
from rich.progress import Progress

from schemas.records import Click, Impression
from streams.broker import admin, consumer, describe_topics
from streams.events.events import Event, click_of, impression_of
from streams.events.job.writer import DeliveryError, EventWriter
from streams.settings import Settings, Topics
from streams.split import Split

USERS = 1000
LISTS_A_SESSION = 3
PAUSE_S = 0.005  # the rate is kept in steps of this, since a shorter sleep is mostly oversleep
PRODUCED = ("written-by", b"glimpse produce")  # the header that tells its records from those of services
NEWEST = 50  # records of each partition that are looked at
PATIENCE_S = 10.0


class Produced(NamedTuple):
    """What has been written, and how long it took."""

    impressions: int
    clicks: int
    seconds: float


def produce_events(
    settings: Settings,
    events: Iterable[Event],
    *,
    rate: float | None = None,
    total: int | None = None,
    restamp: bool = False,
    progress: Progress | None = None,
) -> Produced:
    """Write ``events`` to the topics, ``rate`` a second or as fast as it can; return once Kafka has them all.

    ``restamp`` dates each event at its sending, for recorded events that live topics would find too late. Otherwise
    topics that keep the creator's time get the event's own as Kafka's. ``progress`` is a bar up to ``total`` events.
    """
    if rate is not None and not rate > 0:
        raise ValueError(f"rate must be a positive number of events a second, got {rate}")
    own_time = settings.timestamps == "CreateTime"
    counts = Counter[type[Event]]()
    start = time.monotonic()
    with EventWriter(settings, headers=[PRODUCED]) as writer, progress or Progress(disable=True) as bar:
        task = bar.add_task("events", total=total)
        for number, event in enumerate(events):
            if rate is not None and (early := start + number / rate - time.monotonic()) > PAUSE_S:
                bar.update(task, completed=number)
                time.sleep(early)
            if restamp and isinstance(event, Impression):
                event = replace(event, shown_at_ms=int(time.time() * 1000))
            elif restamp and isinstance(event, Click):
                event = replace(event, clicked_at_ms=int(time.time() * 1000))
            writer.send(event, timestamp_ms=event.at_ms if own_time else None)
            counts[type(event)] += 1
            if number % 1000 == 0:
                bar.update(task, completed=number)
        writer.flush()
        bar.update(task, completed=counts.total())
    return Produced(counts[Impression], counts[Click], time.monotonic() - start)


def simulated_events(
    settings: Settings, lists: int, *, seed: int = 0, candidates: int = 0, clock: Callable[[], float] = time.time
) -> Iterator[Event]:
    """Yield ``lists`` random lists, each followed by its clicks, for every bucket of ``settings`` by its users.

    With ``candidates`` each list says so many that it was chosen from, or as many as it shows if that is more. Each
    bucket has a hidden taste: an item is tapped with a chance that grows with its context's agreement with the taste
    and falls with its position, as people look less far down.
    """
    if not settings.buckets:
        raise ValueError("no buckets to simulate lists for; add [buckets.NAME] to glimpse.toml")
    split = Split.of(settings)
    namespaces = list(split.weights)
    random = np.random.default_rng(seed)
    tastes = {name: _direction(random, bucket.dim) for name, bucket in sorted(settings.buckets.items())}
    run = f"{random.integers(1 << 32):08x}-{int(clock() * 1000):x}"  # ids must differ between two runs
    for number in range(lists):
        session = number // LISTS_A_SESSION
        user_id = f"user-{session % USERS}"
        bucket = settings.buckets[split.bucket_of(user_id, namespaces[number % len(namespaces)])]
        at_ms, size, among = int(clock() * 1000), bucket.positions, max(bucket.positions, candidates)
        items = random.choice(10 * among, among, replace=False)
        contexts = _direction(random, among, bucket.dim) * bucket.context_scale
        shown = impression_of(
            items[:size],
            contexts[:size],
            candidate_items=items if candidates else None,
            candidate_contexts=contexts if candidates else None,
            impression_id=f"{run}-{number}",
            session_id=f"{run}-s{session}",
            bucket=bucket.name,
            user_id=user_id,
            shown_at_ms=at_ms,
            rendered=int(random.integers(size // 2, size + 1)) or 1,
            split_version=split.version,
        )
        yield shown
        liked = 0.1 * (1 + shown.contexts_array @ tastes[bucket.name] / bucket.context_scale)  # from 0 to 0.2
        seen = np.where(np.arange(size) < shown.rendered, 0.85 ** np.arange(size), 0)
        for position in (np.flatnonzero(random.random(size) < liked * seen) + 1).tolist():
            yield click_of(
                impression_id=shown.impression_id,
                session_id=shown.session_id,
                position=position,
                clicked_at_ms=at_ms + 500 * position,
                reward=bucket.reward_scale,
            )


def _direction(random: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """Return random vectors of length 1 at most, so that they are the same in float32."""
    numbers = random.normal(size=shape)
    numbers *= (1 - 1e-6) / np.maximum(np.linalg.norm(numbers, axis=-1, keepdims=True), 1e-9)
    return numbers


def foreign_event(settings: Settings) -> str | None:
    """Return where one of the newest events stands that another program wrote, or None when there is none.

    Simulated clicks among real ones would be learned as real ones.
    """
    give_up_at = time.monotonic() + PATIENCE_S
    try:
        with admin(settings) as client:
            topics = describe_topics(client, Topics.of(settings).events).items()
        logs = [TopicPartition(name, number) for name, topic in topics for number in range(topic.partitions)]
        with closing(consumer(settings, headers=True)) as reader:
            reader.assign(logs)
            starts, ends = reader.beginning_offsets(logs), reader.end_offsets(logs)
            for log in logs:
                reader.seek(log, max(starts[log], ends[log] - NEWEST))
            while any(reader.position(log) < ends[log] for log in logs):
                for log, records in reader.poll(500).items():
                    for record in records:
                        if PRODUCED not in (record.headers or ()):
                            return f"{log.topic} partition {log.partition} at offset {record.offset}"
                if time.monotonic() > give_up_at:
                    raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events; try again")
    except KafkaError as error:
        raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events: {error}") from error
    return None
