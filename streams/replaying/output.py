"""Replayed models in; snapshots in a directory or on a parameter topic of their own out."""

from __future__ import annotations

from pathlib import Path

from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code

from schemas.codec import encode
from schemas.records import Snapshot
from streams.archive import replace_file
from streams.learning.owner import home
from streams.parameters import DirectoryParameters, SourceAway
from streams.replay import Replayed, ReplayError
from streams.replaying.part import Plan
from streams.settings import Settings
from streams.snapshots import split, take_snapshot
from streams.topics import Topics, admin, specs


def snapshots_of(plan: Plan, replayed: Replayed, *, now_ms: int) -> list[Snapshot]:
    """Return a snapshot of each model.

    Replayed samples give the version that a learner would have there. Replayed events give no place in a samples log,
    so those snapshots serve rankers, and no learner goes on from them.
    """
    samples = plan.topics == ("samples",)
    partitions = 1 + max(number for _, number in plan.ranges)
    found = []
    for name, model in replayed.models.items():
        partition = home(name, partitions) if samples else 0
        found.append(
            take_snapshot(
                model,
                plan.buckets[name],
                samples_offset=plan.ranges["samples", partition][1] if samples else 0,
                topic_id=plan.topic_ids[0] if samples else "",
                partition=partition,
                published_at_ms=now_ms,
            )
        )
    return found


def write_directory(folder: Path, snapshots: list[Snapshot]) -> None:
    """Write one file per bucket, as ``Ranker.from_directory`` reads them."""
    there = DirectoryParameters(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for snapshot in snapshots:
        replace_file(there.file(snapshot.bucket), encode(snapshot))


def write_topic(settings: Settings, topic: str, snapshots: list[Snapshot]) -> None:
    """Write snapshots to a compacted topic other than the live one, made if it is not there."""
    if topic == Topics.of(settings).parameters:
        raise ReplayError(f"{topic} is what rankers read now; give another topic, or raise the epoch in the settings")
    try:
        _make(settings, topic)
        producer = KafkaProducer(**settings.kafka_client(), acks="all", max_request_size=1 << 20)
        try:
            sent = [
                producer.send(topic, encode(chunk), _key(chunk)) for snapshot in snapshots for chunk in split(snapshot)
            ]
            for future in sent:
                future.get(timeout=30)
        finally:
            producer.close()
    except KafkaError as error:
        raise SourceAway(f"cannot write to {topic} on Kafka at {settings.kafka}: {error}") from error


def _key(chunk: Snapshot) -> bytes:
    return (f"{chunk.bucket}#{chunk.chunk}" if chunk.chunk else chunk.bucket).encode()


def _make(settings: Settings, topic: str) -> None:
    live = Topics.of(settings).parameters
    [config] = [spec.config for spec in specs(settings) if spec.name == live]
    with admin(settings) as client:
        if topic in client.list_topics():
            return
        wanted = {"num_partitions": 1, "replication_factor": settings.replication, "configs": dict(config)}
        [made] = client.create_topics({topic: wanted}, raise_errors=False)["topics"]
        if made["error_code"]:
            raise ReplayError(f"cannot create {topic}: {for_code(made['error_code']).__name__}")
        client.wait_for_topics([topic])
