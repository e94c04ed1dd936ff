"""Where replayed models go: snapshots in a directory, or on a parameter topic of their own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kafka.errors import KafkaError

from schemas.codec import encode
from schemas.records import Snapshot
from streams.broker import await_sent, create_topics, partition_of, producer, topic_specs
from streams.logs import SourceAway, replace_file
from streams.logs.job import KafkaSource
from streams.parameters import DirectoryParameters, Version, key_of, name_of, split_snapshot, take_snapshot
from streams.replay.compare import live_snapshots, snapshots_in
from streams.replay.job.replay import Replayed
from streams.replay.plan import ReplayError, ReplayPlan
from streams.settings import Settings, Topics


def version_of(plan: ReplayPlan, bucket: str) -> Version:
    """Return the version of a bucket's snapshot, which grows with the logs.

    Replayed samples give the version that a learner would have there. Replayed events have no offset in a samples log;
    the sum of the offsets at which they end stands for it.
    """
    if plan.topics == ("samples",):
        return plan.buckets[bucket].epoch, plan.ranges["samples", _samples_partition(plan, bucket)][1]
    return plan.buckets[bucket].epoch, sum(stop for _, stop in plan.ranges.values())


def _samples_partition(plan: ReplayPlan, bucket: str) -> int:
    partitions = 1 + max(number for _, number in plan.ranges)
    return partition_of(plan.buckets[bucket].learns_from, partitions) if plan.topics == ("samples",) else 0


def snapshots_of(replayed: Replayed, *, now_ms: int) -> list[Snapshot]:
    """Return a snapshot of each model; those of replayed events serve rankers, and no learner goes on from them."""
    plan = replayed.plan
    return [
        take_snapshot(
            model,
            plan.buckets[name],
            samples_offset=version_of(plan, name)[1],
            topic_id=plan.topic_ids[0] if plan.topics == ("samples",) else "",
            partition=_samples_partition(plan, name),
            published_at_ms=now_ms,
        )
        for name, model in replayed.models.items()
    ]


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
    for ours in snapshots:
        theirs = known.get(ours.bucket, ours)
        if theirs.version >= ours.version and (theirs.version, theirs.sha256) != (ours.version, ours.sha256):
            raise _older(theirs, ours.version)


def _older(known: Snapshot, version: Version) -> ReplayError:
    return ReplayError(
        f"{name_of(known)} is there already with other content, and rankers take only a higher version than that, not "
        f"{version[0]}.{version[1]}: raise --epoch above {known.epoch}, or write to another place"
    )


def write_directory(folder: Path, snapshots: list[Snapshot]) -> None:
    """Write one file per bucket, as ``Ranker.from_directory`` reads them; none when one would not be newer."""
    _check_other(snapshots, snapshots_in(folder, [snapshot.bucket for snapshot in snapshots], skip_corrupt=True))
    folder.mkdir(parents=True, exist_ok=True)
    for snapshot in snapshots:
        replace_file(DirectoryParameters(folder).file(snapshot.bucket), encode(snapshot))


def write_topic(settings: Settings, topic: str, snapshots: list[Snapshot]) -> None:
    """Write snapshots to a compacted topic other than the live one, made if it is not there."""
    _check_other(snapshots, on_topic(settings, topic))
    try:
        [live] = [spec for spec in topic_specs(settings) if spec.name == Topics.of(settings).parameters]
        create_topics(settings, [replace(live, name=topic)])
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
