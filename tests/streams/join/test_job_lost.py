"""What a consumer says of a log that has lost records refuses its partition alone."""

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


@pytest.mark.parametrize("kind", [LogTruncationError, OffsetOutOfRangeError])
def test_a_log_that_has_lost_records_stops_its_partition_alone(kind, monkeypatch):
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

    def poll(timeout_ms):
        raise kind({TopicPartition(TOPICS.impressions, 0): None})

    with monkeypatch.context() as patched:
        patched.setattr(job._consumer, "poll", poll)
        job.turn()
    assert job.watch.ready().startswith("refused: partition 0 of impressions: ")
    assert sorted(job._joins) == [1]
