"""Redis that is down, slow, full, read-only, empty or full of nonsense: learning goes on, the store is right soon."""

import os
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
from jobs import Jobs, wait_until
from sample_batches import SampleWriter, all_algorithms

from streams.logs import SourceAway
from streams.parameters.job import KafkaParameters, RedisParameters
from streams.rank.job import Ranker


@pytest.fixture
def learning(settings_for, new_redis, tmp_path, request):
    """A Redis of the test's own with a worker that fills it, every second where the test does not say how often."""
    server, every_s = new_redis(), getattr(request, "param", 1.0)
    buckets = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "pbm")}
    settings = settings_for(buckets=buckets, redis=server.url, publish_every_s=every_s)
    writer, jobs, online = SampleWriter(settings), Jobs(settings, tmp_path), RedisParameters(settings)
    jobs.start("learn")
    writer.write()
    wait_until(lambda: filled(online, writer), timeout_s=60, jobs=jobs)
    yield server, settings, writer, jobs, online
    jobs.close()
    writer.close()


def filled(online, writer):
    """Whether Redis answers, and holds every bucket as this process has learned it."""
    try:
        found = {name: online.newest(name) for name in writer.models}
    except SourceAway:
        return False
    return {name: one and one.sha256 for name, one in found.items()} == writer.hashes()


def learned(reader, writer):
    """Whether Kafka holds every bucket as this process has learned it."""
    reader.catch_up()
    return {name: one.sha256 for name, one in reader.snapshots.items()} == writer.hashes()


@pytest.mark.quiet
@pytest.mark.parametrize("learning", [5.0], indirect=True)  # so that one interval is time enough for a slow machine
def test_redis_back_empty_after_10_s_is_right_within_two_intervals(learning):
    server, settings, writer, jobs, online = learning
    reader = KafkaParameters(settings)
    server.stop()
    for _ in range(5):
        writer.write()
        time.sleep(2)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)  # learning went on
    server.start()
    came_back = time.monotonic()
    wait_until(lambda: filled(online, writer), timeout_s=60, every_s=0.02, jobs=jobs)
    assert time.monotonic() - came_back < 2 * settings.publish_every_s
    reader.close()


@contextmanager
def slow(server):
    """Every answer comes 2 s late."""
    over = threading.Event()

    def hold():
        with closing(redis.Redis.from_url(server.url)) as client:
            while not over.is_set():
                client.client_pause(2000)
                over.wait(1.9)

    thread = threading.Thread(target=hold)
    thread.start()
    yield
    over.set()
    thread.join()


@contextmanager
def full(server):
    """No memory for anything new."""
    with closing(redis.Redis.from_url(server.url)) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1mb")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("more", "x" * 1000)
        yield
        client.config_set("maxmemory", "0")


@contextmanager
def read_only(server):
    """A replica, of somebody who is not there."""
    with closing(redis.Redis.from_url(server.url)) as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.set("more", "x")
        yield
        client.replicaof("NO", "ONE")


@contextmanager
def frozen(server):
    """There, but it never answers."""
    with closing(redis.Redis.from_url(server.url)) as client:
        client.client_pause(6000)
        yield


@contextmanager
def empty(server):
    """All keys are gone again and again."""
    with closing(redis.Redis.from_url(server.url)) as client:
        client.flushall()
        yield
        client.flushall()


def resident_mb(process):
    """The memory that a process holds."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_whatever_redis_does_learning_goes_on_and_the_store_is_right_again(learning):
    server, settings, writer, jobs, online = learning
    [worker] = jobs.running
    reader = KafkaParameters(settings)
    before_mb = resident_mb(worker)
    for fault in (slow, full, read_only, frozen, empty):
        with fault(server):
            for _ in range(4):
                writer.write()  # so that there is work while the fault lasts
                wait_until(lambda: learned(reader, writer), timeout_s=60, every_s=0.05, jobs=jobs)
        wait_until(lambda: filled(online, writer), timeout_s=60, jobs=jobs)
    assert resident_mb(worker) - before_mb < 40
    reader.close()


def test_nonsense_in_redis_is_replaced_while_rankers_go_on(learning):
    server, settings, writer, jobs, online = learning
    raw = redis.Redis.from_url(server.url)
    with Ranker.from_redis(settings, bucket="ubm", refresh_s=0.05) as ranker:
        before = ranker.version
        raw.hset(online.key("ubm"), mapping={"offset": before[1] + 1, "snapshot": b"nonsense"})
        wait_until(lambda: ranker.refused > 0, timeout_s=60, every_s=0.01)
        assert ranker.version == before
        writer.write()
        wait_until(lambda: ranker.version > before, timeout_s=60, jobs=jobs)
        assert ranker.snapshot.sha256 == writer.hashes()["ubm"]
        raw.flushall()
        wait_until(lambda: filled(online, writer), timeout_s=60, every_s=0.02, jobs=jobs)
        assert ranker.snapshot.sha256 == writer.hashes()["ubm"]
