"""Simulated or recorded events, written to the topics of a running Glimpse at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from kafka import TopicPartition
from kafka.errors import KafkaError
from numpy.typing import NDArray
from rich.progress import Progress

from schemas.records import Click, Impression
from streams.broker import admin, consumer, describe_topics
from streams.events.events import Event, click_of, impression_of
from streams.events.job.writer import DeliveryError, EventWriter
from streams.settings import Bucket, Settings, Topics
from streams.split import Split

USERS = 1000
LISTS_A_SESSION = 3
PAUSE_S = 0.005  # the rate is kept in steps of this, since a shorter sleep is mostly oversleep


PRODUCED = ("written-by", b"glimpse produce")  # the header that tells its records from those of services
NEWEST = 50  # records of each partition that are looked at
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Produced:
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
    """Write ``events`` to the topics and return their number once Kafka has them all.

    Parameters
    ----------
    rate
        Events a second; None writes as fast as it can.
    total
        How many events there will be, for ``progress``, a bar that shows them.
    restamp
        Date each event at its sending, for recorded events that live topics would find too late. Otherwise topics that
        keep the creator's time (``timestamps = "CreateTime"``) get the event's own time as Kafka's.
    """
    if rate is not None and not rate > 0:
        raise ValueError(f"rate must be a positive number of events a second, got {rate}")
    own_time = settings.timestamps == "CreateTime"
    counts = {Impression: 0, Click: 0}
    start = time.monotonic()
    with EventWriter(settings, headers=[PRODUCED]) as writer, progress or Progress(disable=True) as bar:
        task = bar.add_task("events", total=total)
        for number, event in enumerate(events):
            if rate is not None and (early := start + number / rate - time.monotonic()) > PAUSE_S:
                bar.update(task, completed=number)
                time.sleep(early)
            if restamp:
                event = _dated(event, int(time.time() * 1000))
            writer.send(event, timestamp_ms=event.at_ms if own_time else None)
            counts[type(event)] += 1
            if number % 1000 == 0:
                bar.update(task, completed=number)
        writer.flush()
        bar.update(task, completed=sum(counts.values()))
    return Produced(counts[Impression], counts[Click], time.monotonic() - start)


def simulated_events(
    settings: Settings,
    lists: int,
    *,
    seed: int = 0,
    candidates: int = 0,
    clock: Callable[[], float] = time.time,
) -> Iterator[Event]:
    """Yield ``lists`` random lists, each followed by its clicks, for every bucket of ``settings`` by its users.

    With ``candidates`` each list says so many that it was chosen from, or as many as it shows if that is more.

    Each bucket has a hidden taste: an item is tapped with a chance that grows with its context's agreement with the
    taste and falls with its position, as people look less far down.
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
        names = (f"{run}-{number}", f"{run}-s{session}", user_id)
        shown = _list(bucket, random, at_ms=int(clock() * 1000), names=names, candidates=candidates)
        shown = replace(shown, split_version=split.version)
        yield shown
        yield from _clicks(shown, bucket, tastes[bucket.name], random)


def _list(
    bucket: Bucket, random: np.random.Generator, *, at_ms: int, names: tuple[str, str, str], candidates: int
) -> Impression:
    impression_id, session_id, user_id = names
    size = bucket.positions
    among = max(size, candidates)
    items = random.choice(max(10 * size, 10 * candidates), among, replace=False)
    contexts = _direction(random, among, bucket.dim) * bucket.context_scale
    return impression_of(
        items[:size],
        contexts[:size],
        candidate_items=items if candidates else None,
        candidate_contexts=contexts if candidates else None,
        impression_id=impression_id,
        session_id=session_id,
        bucket=bucket.name,
        user_id=user_id,
        shown_at_ms=at_ms,
        rendered=int(random.integers(size // 2, size + 1)) or 1,
    )


def _clicks(
    shown: Impression, bucket: Bucket, taste: NDArray[np.float64], random: np.random.Generator
) -> Iterator[Click]:
    liked = 0.1 * (1 + shown.contexts_array @ taste / bucket.context_scale)  # from 0 to 0.2
    seen = np.where(np.arange(shown.size) < shown.rendered, 0.85 ** np.arange(shown.size), 0)
    for position in np.flatnonzero(random.random(shown.size) < liked * seen) + 1:
        yield click_of(
            impression_id=shown.impression_id,
            session_id=shown.session_id,
            position=int(position),
            clicked_at_ms=shown.shown_at_ms + 500 * int(position),
            reward=bucket.reward_scale,
        )


def _direction(random: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """Return random vectors of length 1 at most, so that they are the same in float32."""
    numbers = random.normal(size=shape)
    numbers *= (1 - 1e-6) / np.maximum(np.linalg.norm(numbers, axis=-1, keepdims=True), 1e-9)
    return numbers


def _dated(event: Event, at_ms: int) -> Event:
    return replace(event, shown_at_ms=at_ms) if isinstance(event, Impression) else replace(event, clicked_at_ms=at_ms)


def foreign_event(settings: Settings) -> str | None:
    """Return where one of the newest events stands that another program wrote, or None when there is none.

    Simulated clicks among real ones would be learned as real ones.
    """
    give_up_at = time.monotonic() + PATIENCE_S
    try:
        with admin(settings) as client:
            found = describe_topics(client, Topics.of(settings).events)
        places = [TopicPartition(name, number) for name, topic in found.items() for number in range(topic.partitions)]
        with closing(consumer(settings)) as reader:
            reader.assign(places)
            starts, ends = reader.beginning_offsets(places), reader.end_offsets(places)
            for place in places:
                reader.seek(place, max(starts[place], ends[place] - NEWEST))
            while any(reader.position(place) < ends[place] for place in places):
                for place, records in reader.poll(500).items():
                    for record in records:
                        if PRODUCED not in (record.headers or ()):
                            return f"{place.topic} partition {place.partition} at offset {record.offset}"
                if time.monotonic() > give_up_at:
                    raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events; try again")
    except KafkaError as error:
        raise DeliveryError(f"Kafka at {settings.kafka} does not show its newest events: {error}") from error
    return None
