"""Where replayed models go: snapshots in a directory, or on a parameter topic of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from kafka.errors import KafkaError, for_code

from schemas.codec import encode
from schemas.records import Snapshot
from streams.broker import admin, await_sent, partition_of, producer, topic_specs
from streams.logs import SourceAway, replace_file
from streams.logs.job import KafkaSource
from streams.parameters import (
    DirectoryParameters,
    SnapshotCorrupt,
    Version,
    key_of,
    name_of,
    split_snapshot,
    take_snapshot,
)
from streams.replay.compare import live_snapshots
from streams.replay.job.replay import Replayed
from streams.replay.plan import ReplayError, ReplayPlan
from streams.settings import Settings, Topics


def version_of(plan: ReplayPlan, bucket: str) -> Version:
    """Return the version of a bucket's snapshot, which grows with the logs.

    Replayed samples give the version that a learner would have there. Replayed events give no place in a samples log;
    where they end, summed up, takes its place.
    """
    if plan.topics == ("samples",):
        return plan.buckets[bucket].epoch, plan.ranges["samples", _home(plan, bucket)][1]
    return plan.buckets[bucket].epoch, sum(stop for _, stop in plan.ranges.values())


def _home(plan: ReplayPlan, bucket: str) -> int:
    source = plan.buckets[bucket].learns_from
    return partition_of(source, 1 + max(number for _, number in plan.ranges)) if plan.topics == ("samples",) else 0


def snapshots_of(replayed: Replayed, *, now_ms: int) -> list[Snapshot]:
    """Return a snapshot of each model; those of replayed events serve rankers, and no learner goes on from them."""
    plan = replayed.plan
    return [
        take_snapshot(
            model,
            plan.buckets[name],
            samples_offset=version_of(plan, name)[1],
            topic_id=plan.topic_ids[0] if plan.topics == ("samples",) else "",
            partition=_home(plan, name),
            published_at_ms=now_ms,
        )
        for name, model in replayed.models.items()
    ]


def in_directory(folder: Path, buckets: Iterable[str]) -> dict[str, Snapshot]:
    """Return the snapshots of some buckets in a directory, without what is none."""
    there, found = DirectoryParameters(folder), {}
    for name in buckets:
        with suppress(SnapshotCorrupt):
            snapshot = there.newest(name)
            if snapshot is not None:
                found[name] = snapshot
    return found


def on_topic(settings: Settings, topic: str) -> dict[str, Snapshot]:
    """Return the newest snapshots on a parameter topic other than the live one."""
    if topic == Topics.of(settings).parameters:
        raise ReplayError(f"{topic} is what rankers read now; give another topic, or raise the epoch in the settings")
    with closing(KafkaSource(replace(settings, topic_prefix=""))) as source:
        return live_snapshots(source, topic)


def check_newer(plan: ReplayPlan, known: Mapping[str, Snapshot]) -> None:
    """Refuse a plan whose snapshots no running ranker would take, since it knows newer ones."""
    for name in plan.buckets:
        if name in known and known[name].version > version_of(plan, name):
            raise _older(known[name], version_of(plan, name))


def _check_other(snapshots: list[Snapshot], known: Mapping[str, Snapshot]) -> None:
    for snapshot in snapshots:
        there = known.get(snapshot.bucket)
        same = there is not None and (there.version, there.sha256) == (snapshot.version, snapshot.sha256)
        if there is not None and there.version >= snapshot.version and not same:
            raise _older(there, snapshot.version)


def _older(known: Snapshot, version: Version) -> ReplayError:
    return ReplayError(
        f"{name_of(known)} is there already with other content, and rankers take only a higher version than that, not "
        f"{version[0]}.{version[1]}: raise --epoch above {known.epoch}, or write to another place"
    )


def write_directory(folder: Path, snapshots: list[Snapshot]) -> None:
    """Write one file per bucket, as ``Ranker.from_directory`` reads them; none when one would not be newer."""
    _check_other(snapshots, in_directory(folder, [snapshot.bucket for snapshot in snapshots]))
    there = DirectoryParameters(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for snapshot in snapshots:
        replace_file(there.file(snapshot.bucket), encode(snapshot))


def write_topic(settings: Settings, topic: str, snapshots: list[Snapshot]) -> None:
    """Write snapshots to a compacted topic other than the live one, made if it is not there."""
    _check_other(snapshots, on_topic(settings, topic))
    try:
        _make(settings, topic)
        writer = producer(settings)
        try:
            sent = [
                writer.send(topic, encode(chunk), key_of(chunk))
                for snapshot in snapshots
                for chunk in split_snapshot(snapshot)
            ]
            await_sent(sent)
        finally:
            writer.close()
    except KafkaError as error:
        raise SourceAway(f"cannot write to {topic} on Kafka at {settings.kafka}: {error}") from error


def _make(settings: Settings, topic: str) -> None:
    live = Topics.of(settings).parameters
    [config] = [spec.config for spec in topic_specs(settings) if spec.name == live]
    with admin(settings) as client:
        if topic in client.list_topics():
            return
        wanted = {"num_partitions": 1, "replication_factor": settings.replication, "configs": dict(config)}
        [made] = client.create_topics({topic: wanted}, raise_errors=False)["topics"]
        if made["error_code"]:
            raise ReplayError(f"cannot create {topic}: {for_code(made['error_code']).__name__}")
        client.wait_for_topics([topic])
