"""Logs that are written first and then read as fast as the jobs can, and how far the jobs have got."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import psutil
from jobs import Jobs, wait_until
from kafka import KafkaProducer, TopicPartition
from plain_loops import DIM, K, Measured, measured

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.broker import admin, admin_client, consumer, create_topics
from streams.join import Commit
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Settings, Topics

CLICKS = 0.4  # a list
RATE = 2_000  # lists a second of the log's own time, which has to pass the wait for lists to close while it is read
PARTITIONS, JOIN_PORT, LEARN_PORT = 4, 6367, 6366
START_MS = (int(time.time()) - 7200) * 1000


def settings_of(bootstrap: str, prefix: str, **changes: Any) -> Settings:
    """Return the settings of one run, with topics of its own."""
    made = Settings(
        kafka=bootstrap,
        buckets={"main": Bucket("main", "c2ucb", DIM, K)},
        wait_s=10,
        lateness_s=10,
        partitions=PARTITIONS,
        topic_prefix=prefix,
        timestamps="CreateTime",
        web_port=LEARN_PORT,
        join_web_port=JOIN_PORT,
    )
    found = replace(made, **changes)
    create_topics(found)
    return found


def filled(settings: Settings, lists: int, *, bad_every: int = 0, compression: str | None = None) -> Settings:
    """Write the logs, the same for every run; with ``bad_every``, one record in so many is none that can be read."""
    halves = [range(PARTITIONS // 2), range(PARTITIONS // 2, PARTITIONS)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_fill, [(settings, lists, half, bad_every, compression) for half in halves])
    return settings


def _fill(settings: Settings, lists: int, partitions: range, bad_every: int, compression: str | None) -> None:
    """Write those lists and clicks that fall to some partitions, at the times of ``RATE`` lists a second, in order."""
    topics = Topics.of(settings)
    batching = {"acks": 1, "linger_ms": 50, "batch_size": 1 << 19, "compression_type": compression}
    producer = KafkaProducer(**settings.kafka_options(), **batching, max_block_ms=600_000)
    random = np.random.default_rng(partitions.start)
    contexts = [block.tobytes() for block in random.uniform(-1, 1, (500, K, DIM)).astype("<f4")]
    items = [block.tobytes() for block in random.integers(0, 10**6, (500, K))]
    taps = []
    for number in (number for number in range(lists) if number % PARTITIONS in partitions):
        at = START_MS + number * 1000 // RATE
        session = f"session-{number:09}"
        shown = Impression(
            f"list-{number:012}", session, "main", "user", at, items[number % 500], contexts[number * 7 % 500], K
        )
        place = {"key": session.encode(), "partition": number % PARTITIONS, "timestamp_ms": at}
        producer.send(topics.impressions, encode(shown), **place)
        if bad_every and random.random() < 1 / bad_every:
            producer.send(topics.impressions, b"no Avro at all", **place)
        for position in np.flatnonzero(random.random(K) < CLICKS / K) + 1:
            late = int(random.integers(500, 8000) if random.random() < 0.98 else random.integers(10_000, 18_000))
            tap = Click(shown.impression_id, session, int(position), at + late)
            taps.append((tap, place | {"timestamp_ms": tap.clicked_at_ms}))
    for click, place in sorted(taps, key=lambda tap: tap[0].clicked_at_ms):
        producer.send(topics.clicks, encode(click), **place)
    producer.flush()
    producer.close()


class Progress:
    """How many events the join has behind it; asked through one client, since making one takes a core."""

    def __init__(self, settings: Settings) -> None:
        self._admin, self._group = admin_client(settings), f"{settings.topic_prefix}glimpse-join"
        self._events = Topics.of(settings).events
        places = [TopicPartition(topic, number) for topic in self._events for number in range(PARTITIONS)]
        with closing(consumer(settings)) as reader:
            self._all = sum(reader.end_offsets(places).values())
        self.marks: list[tuple[float, int]] = []  # when it was seen that so many were done

    def all_done(self) -> bool:
        """Look how many are done, and return whether all are."""
        found = self._admin.list_group_offsets(self._group)[self._group]
        ledgers = []
        for number in range(PARTITIONS):
            entries = [found.get(TopicPartition(topic, number)) for topic in self._events]
            if None not in entries:
                ledgers.append(Commit.decode(*((entry.offset, entry.metadata) for entry in entries))[0].ledger)
        count = sum(ledger.impressions + ledger.clicks for ledger in ledgers)
        if not self.marks or count > self.marks[-1][1]:
            self.marks.append((time.monotonic(), count))
        return count >= self._all

    def close(self) -> None:
        """Let go of the client."""
        self._admin.close()


def catch_up(settings: Settings, folder: Path, lists: int) -> Measured:
    """Start both jobs, and return what they took once so many lists are joined and learned, exactly once."""
    jobs = Jobs(settings, folder)

    def cpu_s() -> float:
        times = [psutil.Process(one.pid).cpu_times() for one in jobs.running]
        return float(sum(one.user + one.system for one in times))

    try:
        jobs.start("learn")
        wait_until(lambda: ready(settings.web_port), timeout_s=60, jobs=jobs, every_s=0.02)
        jobs.start("join", "--from", "earliest")
        wait_until(lambda: ready(settings.join_web_port), timeout_s=60, jobs=jobs, every_s=0.02)
        began_s = cpu_s()  # loading Python and its libraries, as hand-written loops had before
        with closing(Progress(settings)) as progress:
            wait_until(progress.all_done, timeout_s=600, jobs=jobs, every_s=0.1)  # asking takes CPU too
        with closing(KafkaParameters(settings)) as parameters:
            wait_until(lambda: _learned(parameters) >= lists, timeout_s=120, jobs=jobs)
        memory = sum(psutil.Process(one.pid).memory_info().rss for one in jobs.running)
        found = measured(progress.marks, cpu_s() - began_s, memory, lists)
        for one in [*jobs.running]:  # in order, so that they leave their groups
            jobs.terminate(one, 30)
        return found
    finally:
        jobs.close()


def _learned(parameters: KafkaParameters) -> int:
    parameters.catch_up()
    return sum(snapshot.rounds for snapshot in parameters.snapshots.values())


def forget(settings: Settings) -> None:
    """Delete all that jobs have made of the logs, so that others can read them as the first."""
    topics = Topics.of(settings)
    with admin(settings) as client:
        found = client.delete_groups([f"{settings.topic_prefix}glimpse-join"])
        assert {*found.values()} == {"OK"}, found
        client.delete_topics([*topics.of_jobs])
        wait_until(lambda: not {*topics.of_jobs} & {*client.list_topics()}, timeout_s=60, every_s=0.05)
    create_topics(settings)


def ready(port: int) -> bool:
    """Whether a job says that it is assigned and restored."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
