"""What fails with one partition, a log that has lost records or anything else, refuses that partition alone."""

from random import Random

import pytest
from kafka import TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster

from streams.broker import JobClocks
from streams.join.job.worker import JoinJob
from streams.settings import Bucket, Settings, Topics

SETTINGS = Settings(buckets={"main": Bucket("main", dim=2, positions=2)}, partitions=2)
TOPICS = Topics.of(SETTINGS)


@pytest.fixture
def job():
    """A join that has begun both partitions."""
    cluster = MemoryCluster(Random(1))
    for topic in (*TOPICS.events, TOPICS.samples, TOPICS.dead_letters, TOPICS.late_clicks):
        cluster.add_topic(topic, 2)
    cluster.add_topic(TOPICS.parameters, 1)
    clocks = JobClocks(wall=lambda: cluster.now, monotonic=lambda: cluster.now)
    job = JoinJob(SETTINGS, MemoryBroker(cluster, "a"), start="earliest", clocks=clocks)
    job.begin()
    for _ in range(100):
        job.turn()
    assert job.watch.ready() is None
    return job


@pytest.mark.parametrize("kind", [LogTruncationError, OffsetOutOfRangeError])
def test_a_log_that_has_lost_records_stops_its_partition_alone(job, kind, monkeypatch):
    def poll(timeout_ms):
        raise kind({TopicPartition(TOPICS.impressions, 0): None})

    with monkeypatch.context() as patched:
        patched.setattr(job._consumer, "poll", poll)
        job.turn()
    assert job.watch.ready().startswith("refused: partition 0 of impressions: ")
    assert sorted(job._joins) == [1]


@pytest.mark.parametrize("where", ["turn", "prepare"])
def test_what_nobody_has_thought_of_stops_its_partition_alone_and_is_tried_again(job, where, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("of one record")

    monkeypatch.setattr(job._joins[0], where, fail)
    job._checkpoint_at -= 10
    job.turn()
    assert "partition 0 of impressions: cannot be joined: ZeroDivisionError('of one record')" in job.watch.ready()
    assert sorted(job._joins) == [1]
    job._look_again_at = job._now()
    for _ in range(100):
        job.turn()
    assert job.watch.ready() is None
    assert sorted(job._joins) == [0, 1]
