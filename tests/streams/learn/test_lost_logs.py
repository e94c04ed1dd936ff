"""Samples and parameters that are not what was learned: their end or their beginning gone, or made anew."""

from random import Random

import pytest
from kafka import TopicPartition
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster
from owned import feed, nobody_reads, one_by_one
from sample_batches import make_batch

from schemas.codec import encode
from streams.broker import partition_of
from streams.learn.job.worker import LearnJob
from streams.parameters import ROLLOUT, rollout_of
from streams.settings import Bucket, Settings, Topics

NAMES = ["ubm", "pbm"]  # on two partitions of two
A, B = sorted(NAMES, key=lambda name: partition_of(name, 2))
TOPICS = Topics.of(Settings(buckets={"ubm": Bucket("ubm", "c2ucb", 3, 4)}))


def settings_of(*names, **more):
    return Settings(buckets={name: Bucket(name, "c2ucb", 3, 4, **more.get(name, {})) for name in names})


class World:
    def __init__(self, partitions):
        self.partitions = partitions
        self.cluster = MemoryCluster(Random(1))
        self.cluster.add_topic(TOPICS.samples, partitions)
        for topic in (TOPICS.parameters, TOPICS.dead_letters):
            self.cluster.add_topic(topic, 1)
        self.batches = {}

    def log(self, partition, topic=TOPICS.samples):
        return self.cluster.log(TopicPartition(topic, partition))

    def write(self, name, count):
        log = self.log(partition_of(name, self.partitions))
        for _ in range(count):
            batch, samples = make_batch(name, 2, seed=self.cluster.rng.getrandbits(20))
            self.batches[name, log.append(0, name.encode(), encode(batch))] = samples

    def lose_end(self, partition, end):
        log = self.log(partition)
        log.records, log.end = [one for one in log.records if one.offset < end], end
        for name, offset in list(self.batches):
            if partition_of(name, self.partitions) == partition and offset >= end:
                del self.batches[name, offset]

    def sha256(self, bucket, start=0):
        model = bucket.model()
        for (name, offset), samples in self.batches.items():
            if name == bucket.name and offset >= start:
                model.learn(samples)
        return model.sha256()

    def worker(self, settings):
        job = LearnJob(settings, seek=nobody_reads, broker=MemoryBroker(self.cluster, "worker"), run=one_by_one)
        job.assign(range(self.partitions))
        return job

    def turns(self, job, count):
        for _ in range(count):
            job.maintain()
            for number, owner in job.owners.items():
                records = [] if owner.position is None else self.log(number).read(owner.position, 100)[0]
                if records:
                    feed(owner, records)


def stop(job):
    for owner in job.owners.values():
        owner.close()


@pytest.mark.parametrize("more", [0, 2])
def test_a_partition_whose_end_is_lost_is_refused_alone_and_a_new_epoch_is_the_way_out(more):
    """Also when it was written on before anybody looked."""
    world = World(2)

    for name in (A, B):
        world.write(name, 10)
    first = world.worker(settings_of(A, B))
    world.turns(first, 3)
    world.lose_end(0, 6)
    world.write(A, more)
    world.write(B, 3)
    first.owners[0].lost("the log does not have its next record any more")
    world.turns(first, 3)
    assert f"ends at {6 + more}, but was learned to 10" in first.owners[0].refused
    assert not first.owners[0].ready
    assert first.newest[B].sha256 == world.sha256(first.settings.buckets[B])  # which the others learn on without
    stop(first)
    raised = settings_of(A, B, **{A: {"epoch": 2}})
    second = world.worker(raised)
    world.write(A, 2)
    world.turns(second, 30)
    assert second.newest[A].version == (2, 8 + more)
    assert second.newest[A].sha256 == world.sha256(raised.buckets[A])
    stop(second)


def test_what_a_bucket_missed_and_the_log_has_lost_stops_nobody():
    """A bucket was out of the settings for so long that the log begins after its stamp."""
    world = World(1)

    for name in NAMES:
        world.write(name, 5)
    for settings in (settings_of(A, B), settings_of(A)):
        job = world.worker(settings)
        world.turns(job, 3)
        stop(job)
        world.write(A, 5)
    world.write(B, 2)
    world.log(0).cut(12)
    world.write(A, 5)
    back = world.worker(settings_of(A, B))
    world.turns(back, 20)
    assert back.owners[0].position == world.log(0).end
    assert not back.owners[0].behind
    assert back.newest[A].sha256 == world.sha256(back.settings.buckets[A])
    assert back.newest[B].sha256 == world.sha256(back.settings.buckets[B])
    stop(back)


@pytest.mark.parametrize("longer", [False, True])
def test_parameters_made_anew_under_a_worker_are_looked_for_and_written_whole(longer):
    """Also the bucket that nothing comes for, whose snapshot nobody would have written there."""
    world = World(1)
    settings = settings_of(A, B)

    for name in NAMES:
        world.write(name, 5)
    job = world.worker(settings)
    world.turns(job, 5)
    rollout = rollout_of(Bucket(A, "c2ucb", 3, 4, ridge=3.0, epoch=2), settings.buckets[A], now_ms=0)
    world.log(0, TOPICS.parameters).append(0, f"{ROLLOUT}{A}".encode(), encode(rollout))
    world.turns(job, 40)
    assert job.newest[A].version == (2, 10)
    world.cluster.add_topic(TOPICS.parameters, 1)
    for _ in range(100 if longer else 0):
        world.log(0, TOPICS.parameters).append(0, b"other", b"other")
    world.write(A, 2)
    world.turns(job, 40)
    stop(job)
    found = world.worker(settings).store.read()
    assert {name: found.snapshots[name].sha256 for name in NAMES} == {
        name: world.sha256(settings.buckets[name]) for name in NAMES
    }
    assert found.progress[0].next_offset == world.log(0).end
    assert job.watch.totals["restored"] < 10
