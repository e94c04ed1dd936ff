"""Redis that stops, comes back empty, or holds nonsense: learning goes on, and the store is right again soon."""

import time

import pytest
import redis
from jobs import Jobs, wait_until
from sample_batches import SampleWriter, all_algorithms

from streams.parameters.job import KafkaParameters, RedisParameters
from streams.rank.job import Ranker

PUBLISH_EVERY_S = 1.0


@pytest.fixture
def learning(settings_for, new_redis, tmp_path):
    """A Redis of the test's own with a worker that fills it."""
    server = new_redis()
    buckets = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "pbm")}
    settings = settings_for(buckets=buckets, redis=server.url, publish_every_s=PUBLISH_EVERY_S)
    writer, jobs, online = SampleWriter(settings), Jobs(settings, tmp_path), RedisParameters(settings)
    jobs.start("learn")
    writer.write()
    wait_until(lambda: filled(online, writer), timeout_s=30, jobs=jobs)
    yield server, settings, writer, jobs, online
    jobs.close()
    writer.close()


def filled(online, writer):
    """Whether Redis holds every bucket as this process has learned it."""
    found = {name: online.newest(name) for name in writer.models}
    return {name: one and one.sha256 for name, one in found.items()} == writer.hashes()


@pytest.mark.quiet
def test_redis_back_empty_after_10_s_is_right_within_two_intervals(learning):
    server, settings, writer, jobs, online = learning
    reader = KafkaParameters(settings)
    server.stop()
    for _ in range(5):
        writer.write()
        time.sleep(2)
    reader.catch_up()  # learning went on
    assert {name: one.sha256 for name, one in reader.snapshots.items()} == writer.hashes()
    server.start()
    came_back = time.monotonic()
    wait_until(lambda: filled(online, writer), timeout_s=20, every_s=0.02, jobs=jobs)
    assert time.monotonic() - came_back < 2 * PUBLISH_EVERY_S
    reader.close()


def test_nonsense_in_redis_is_replaced_while_rankers_go_on(learning):
    server, settings, writer, jobs, online = learning
    raw = redis.Redis.from_url(server.url)
    with Ranker.from_redis(settings, bucket="ubm", refresh_s=0.05) as ranker:
        before = ranker.version
        raw.hset(online.key("ubm"), mapping={"offset": before[1] + 1, "snapshot": b"nonsense"})
        wait_until(lambda: ranker.refused > 0, timeout_s=5, every_s=0.01)
        assert ranker.version == before
        writer.write()
        wait_until(lambda: ranker.version > before, timeout_s=10, jobs=jobs)
        assert ranker.snapshot.sha256 == writer.hashes()["ubm"]
        raw.flushall()
        wait_until(lambda: filled(online, writer), timeout_s=2 * PUBLISH_EVERY_S, every_s=0.02, jobs=jobs)
        assert ranker.snapshot.sha256 == writer.hashes()["ubm"]
