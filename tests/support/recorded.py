"""A recorded deployment: a broker's folder in the middle of a log, an archive of the whole log, and what was learned.

Later versions must resume the one and replay the other. `python tests/support/recorded.py` records it again, which only
a deliberate change of formats makes necessary.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from jobs import Jobs, wait_until
from joined import commits
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from msgspec import structs
from traffic import DIM, Event, K, publish, traffic

from schemas.codec import Codec
from schemas.records import Click, Impression
from streams.broker import admin, create_topics
from streams.events.reader import codec_of
from streams.local.kafka import LocalKafka
from streams.logs import Archive
from streams.logs.job import KafkaSource, copy
from streams.parameters.job import KafkaParameters
from streams.rollout import onward
from streams.rollout.job import serving_of, write
from streams.settings import Bucket, Settings, Topics

FOLDER = Path(__file__).parents[1] / "fixtures" / "recorded"
LISTS, START_MS, SPAN_MS, WAIT_S, LATER_MS = 240, 1_790_000_000_000, 200_000, 60.0, 86_400_000
TABLE = np.tril(np.full((12, 12), 0.6))
BUCKETS = {
    "ubm": Bucket("ubm", "ubm-linucb", examination=TABLE, ridge="safe", alpha=0.5),
    "c2ucb": Bucket("c2ucb", "c2ucb", reward_scale=2.0),
    "cm": Bucket("cm", "cm-linucb", beta=0.5),
    "dcm": Bucket("dcm", "dcm-linucb"),
    "pbm": Bucket("pbm", "pbm-ucb", examination=TABLE[:, 0]),
}
REGISTRY = {7: "impressions", 8: "clicks"}
NEVER = str((1 << 31) - 1)
FOR_EVER = {
    "offsets.retention.minutes": NEVER,
    "transactional.id.expiration.ms": NEVER,
    "log.segment.delete.delay.ms": "1",
}


def recorded_broker(folder: Path) -> LocalKafka:
    """Return a broker that keeps commits and transactional ids however old they are."""
    broker = LocalKafka(folder)
    broker.config |= FOR_EVER
    return broker


def settings_of(broker: LocalKafka) -> Settings:
    """Return the settings of the recorded deployment."""
    times = {"wait_s": WAIT_S, "lateness_s": WAIT_S, "publish_every_s": 0.3}
    ports = {"web_port": 0, "join_web_port": 0}
    logs = {"partitions": 2, "timestamps": "CreateTime", "registry": REGISTRY}
    return Settings(broker.bootstrap, buckets=BUCKETS, **logs, **times, **ports)


def number_of(record: Impression | Click) -> int:
    """Return the number of the list that an event belongs to."""
    return int(record.impression_id.rpartition("-")[2])


def with_optional_fields(event: Event) -> Event:
    """Have every third list say who was to see it, how it was drawn, and what from."""
    number = number_of(event.record)
    if not isinstance(event.record, Impression) or number % 3:
        return event
    random = np.random.default_rng(number)
    fields = {
        "ranked_by_epoch": 1,
        "ranked_by_offset": number,
        "split_version": "autumn",
        "catalogue": "c1",
        "propensities": random.uniform(0.1, 1, K).astype("<f4").tobytes(),
        "candidate_items": event.record.items + np.arange(-3, 0).astype("<i8").tobytes(),
        "candidate_contexts": event.record.contexts + random.uniform(-1, 1, (3, DIM)).astype("<f4").tobytes(),
    }
    return replace(event, record=structs.replace(event.record, **fields))


def some_framed(settings: Settings) -> Callable[[Impression | Click], bytes]:
    """Return an encoder that frames the events of every tenth list as Confluent's serializers do."""
    plain, framed = Codec(), codec_of(settings)
    return lambda record: (plain if number_of(record) % 10 else framed).encode(record)


def hashes(settings: Settings) -> dict[str, str]:
    """Return the hash of each bucket's newest snapshot on Kafka."""
    parameters = KafkaParameters(settings)
    try:
        parameters.catch_up(timeout_s=60)
        return {bucket: snapshot.sha256 for bucket, snapshot in sorted(parameters.snapshots.items())}
    finally:
        parameters.close()


def progress(settings: Settings) -> dict[int, int]:
    """Return the next offset of each samples partition that was learned from."""
    parameters = KafkaParameters(settings)
    try:
        parameters.catch_up(timeout_s=60)
        return {partition: entry.next_offset for partition, entry in parameters.progress.items()}
    finally:
        parameters.close()


def lists_learned(settings: Settings) -> int:
    """Return how many lists are in the newest snapshots."""
    parameters = KafkaParameters(settings)
    try:
        parameters.catch_up(timeout_s=60)
        return sum(snapshot.rounds for snapshot in parameters.snapshots.values())
    finally:
        parameters.close()


def processed(settings: Settings) -> list[list[int]]:
    """Return how far the join has committed both logs of each partition."""
    return [[part.processed for part in commit.logs] for commit in commits(settings)]


def all_processed(settings: Settings) -> bool:
    """Return whether the join has committed all that is in its logs."""
    source = KafkaSource(settings)
    try:
        ends = [[source.bounds(topic, number)[1] for topic in ("impressions", "clicks")] for number in range(2)]
        return processed(settings) == ends
    finally:
        source.close()


def learn(settings: Settings, folder: Path, *, until) -> None:
    """Run a join and a learner until something is so, then end them as a supervisor does."""
    folder.mkdir()
    jobs = Jobs(settings, folder)
    try:
        workers = [jobs.start("join", "--from", "earliest"), jobs.start("learn")]
        wait_until(until, timeout_s=120, jobs=jobs)
        for worker in workers:
            assert jobs.terminate(worker, 30) == 0
    finally:
        jobs.close()


def rolled_out(settings: Settings) -> bool:
    """Return whether the rollout's epoch serves."""
    return serving_of(settings, "ubm").snapshot.epoch == 2


def close_lists(settings: Settings) -> None:
    """Write a tombstone of a day later, twice, to each partition: so every list closes."""
    producer = KafkaProducer(**settings.kafka_options())
    for topic in Topics.of(settings).events:
        for partition in range(2):
            for key in (b"one", b"other"):
                producer.send(topic, None, key, None, partition, START_MS + LATER_MS)
    producer.flush()
    producer.close()


def record(folder: Path) -> None:
    """Play a log in two halves: pack the broker after the first, the archive and the hashes after the second.

    Between them a rollout is written, which nobody has taken up when the broker is packed.
    """
    broker = recorded_broker(folder / "broker")
    broker.start()
    settings = settings_of(broker)
    create_topics(settings)
    with admin(settings) as client:  # the events are old when they are read again
        names = [
            settings.topic_prefix + name for name in ("impressions", "clicks", "samples", "late-clicks", "dead-letters")
        ]
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "-1"}) for name in names])
    times = {"wait_ms": int(1000 * WAIT_S), "lateness_ms": int(1000 * WAIT_S)}
    logs = traffic(LISTS, buckets=list(BUCKETS), start_ms=START_MS, span_ms=SPAN_MS, **times, seed=25)
    logs = [[with_optional_fields(event) for event in log] for log in logs]
    middle_ms, encode = START_MS + SPAN_MS // 2, some_framed(settings)
    for topic, log in zip(Topics.of(settings).events, logs, strict=True):
        publish(settings.kafka, topic, [event for event in log if event.timestamp_ms < middle_ms], encode=encode)
    learn(settings, folder / "first", until=lambda: all_processed(settings) and lists_learned(settings) > LISTS // 10)
    half = {"sha256": hashes(settings), "lists": lists_learned(settings)}
    plan = onward(serving_of(settings, "ubm"), {"examination": 0.9 * TABLE})
    write(settings, plan.record(truncated=False, now_ms=START_MS))
    broker.stop()
    pack(folder / "broker", FOLDER / "broker.tar.xz", leave_out=("kafka.log", "kafka.pid", "server.properties"))
    broker.start()
    for topic, log in zip(Topics.of(settings).events, logs, strict=True):
        publish(settings.kafka, topic, [event for event in log if event.timestamp_ms >= middle_ms], encode=encode)
    close_lists(settings)
    learn(settings, folder / "second", until=lambda: lists_learned(settings) == LISTS and rolled_out(settings))
    copy(settings, Archive(folder / "archive"))
    learned = {"half": half, "end": {"sha256": hashes(settings), "lists": lists_learned(settings)}}
    broker.stop()
    pack(folder / "archive", FOLDER / "archive.tar.xz")
    (FOLDER / "learned.json").write_text(json.dumps(learned, indent=2) + "\n")


def pack(folder: Path, file: Path, *, leave_out: tuple[str, ...] = ()) -> None:
    """Write a folder's files to an archive."""
    with tarfile.open(file, "w:xz") as packed:
        packed.add(folder, arcname=folder.name, filter=lambda part: None if Path(part.name).name in leave_out else part)


def unpack(name: str, folder: Path) -> Path:
    """Return a recorded folder, unpacked below ``folder``."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        record(Path(scratch))
    print("\n".join(f"{file.name} {os.path.getsize(file)} bytes" for file in FOLDER.iterdir()), file=sys.stderr)
