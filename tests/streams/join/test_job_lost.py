"""What fails with one partition, a log that has lost records or anything else, refuses that partition alone."""

import shutil
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest
from kafka import TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster

import schemas
from streams.broker import JobClocks
from streams.join.job.owner import REFUSED_S, WAITING_S
from streams.join.job.worker import JoinJob
from streams.settings import Bucket, Settings, Topics

SETTINGS = Settings(buckets={"main": Bucket("main", dim=2, positions=2)}, partitions=2)
TOPICS = Topics.of(SETTINGS)


def started(*, settings=SETTINGS, anew=False):
    """Return a cluster, and a join that has begun both of its partitions."""
    cluster = MemoryCluster(Random(1))
    for topic in (*TOPICS.events, TOPICS.samples, TOPICS.dead_letters, TOPICS.late_clicks):
        cluster.add_topic(topic, 2)
    cluster.add_topic(TOPICS.parameters, 1)
    clocks = JobClocks(wall=lambda: cluster.now, monotonic=lambda: cluster.now)
    job = JoinJob(settings, MemoryBroker(cluster, "a"), start="earliest", anew=anew, clocks=clocks)
    job.begin()
    for _ in range(100):
        job.turn()
    assert job.watch.ready() is None
    return cluster, job


@pytest.fixture
def job():
    return started()[1]


@pytest.mark.parametrize("kind", [LogTruncationError, OffsetOutOfRangeError])
def test_a_log_that_has_lost_records_stops_its_partition_alone(job, kind, monkeypatch):
    def poll(timeout_ms):
        raise kind({TopicPartition(TOPICS.impressions, 0): None})

    with monkeypatch.context() as patched:
        patched.setattr(job._consumer, "poll", poll)
        job.turn()
    assert job.watch.ready().startswith("refused: partition 0 of impressions: ")
    assert sorted(job.watch.joined) == [1]


@pytest.mark.parametrize("where", ["feed", "checkpoint"])
def test_what_nobody_has_thought_of_stops_its_partition_alone_and_is_tried_again(job, where, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("of one record")

    with monkeypatch.context() as patched:
        patched.setattr(job.watch.joined[0], where, fail)
        job._checkpoint_at -= 10
        job.turn()
    assert "partition 0 of impressions: cannot be joined: ZeroDivisionError('of one record')" in job.watch.ready()
    assert sorted(job.watch.joined) == [1]
    job._owners[0].waits_until = job._now()
    for _ in range(100):
        job.turn()
    assert job.watch.ready() is None
    assert sorted(job.watch.joined) == [0, 1]


def test_each_partition_waits_for_as_long_as_it_has_to(job):
    first, second = job._owners.values()
    assert first.waits_until == second.waits_until == inf
    job._refuse_all([TopicPartition(TOPICS.impressions, 0)], "gone")
    second.wait()
    assert (first.waits_until - job._now(), second.waits_until - job._now()) == (REFUSED_S, WAITING_S)
    assert not first.due
    while job.watch.refused:
        assert job._now() < first.waits_until + 1
        job.turn()
    assert sorted(job.watch.joined) == [0, 1]
    assert first.waits_until == second.waits_until == inf


@pytest.mark.parametrize("comes_back", [False, True])
def test_anew_is_not_said_of_a_partition_that_this_process_has_written(comes_back):
    cluster, job = started(anew=True)
    assert all(owner.has_written for owner in job._owners.values())
    job._owners[1].has_written = False  # as in a process that has just been started
    if comes_back:
        job._owners[0].close()
    offsets = cluster.group("glimpse-join").offsets
    for source in [source for source in offsets if source.topic == TOPICS.clicks]:
        del offsets[source]
    job._look_again_at = job._now()
    job.turn()
    assert list(job.watch.refused) == [0], "the other one begins anew, as it was told"
    assert list(job.watch.joined) == [1]


def test_a_schema_file_that_is_gone_later_stops_no_rebalance(tmp_path):
    path = shutil.copy(Path(schemas.__file__).with_name("click.avsc"), tmp_path / "click.avsc")
    _, job = started(settings=replace(SETTINGS, registry={8: str(path)}))
    path.unlink()
    job._refuse_all([TopicPartition(TOPICS.impressions, 0)], "the partition moved")
    assert sorted(job.watch.joined) == [1]
    job._look_again_at = job._now()
    for _ in range(100):
        job.turn()
    assert job.watch.ready() is None
    assert sorted(job.watch.joined) == [0, 1]
