"""A candidate on the parameters topic: in pieces, gone on with after a restart, and gone once it serves."""

from random import Random

import numpy as np
import pytest
from kafka import TopicPartition
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster
from owned import catch_up, feed, owner_of
from sample_batches import pack

from learner import Samples
from schemas.codec import encode
from streams.learn import samples_of
from streams.learn.job import owner as owners
from streams.learn.job.store import Store
from streams.parameters import ROLLOUT, rollout_of
from streams.settings import Bucket, Settings, Topics

DIM = 320  # whose sums take more than one record
BUCKET = Bucket("main", "c2ucb", DIM, 2)
SETTINGS = Settings(buckets={"main": BUCKET})
TOPICS = Topics.of(SETTINGS)
SAMPLES, PARAMETERS = (TopicPartition(topic, 0) for topic in (TOPICS.samples, TOPICS.parameters))


@pytest.fixture
def cluster():
    made = MemoryCluster(Random(1), interfere=lambda client, name: "")
    for topic in (TOPICS.samples, TOPICS.parameters, TOPICS.dead_letters):
        made.add_topic(topic, 1)
    return made


def batches(count):
    random = np.random.default_rng(3)
    for _ in range(count):
        contexts = random.uniform(-0.05, 0.05, (2, 2, DIM)).astype(np.float32)
        yield pack("main", Samples.from_clicks(contexts, np.array([[0.0, 1.0], [0.0, 0.0]])))


def not_taken_up(owner):
    """What was rolled out since a partition was restored, after as many looks as this broker's answers may need."""
    for _ in range(30):
        rollouts = owner.store.rolled_out()
    owner.take_up(rollouts)
    return owner.outdated


def test_a_candidate_in_pieces_outlives_its_worker_and_is_gone_once_it_serves(cluster, monkeypatch):
    monkeypatch.setattr(owners, "CATCH_UP_POLLS", 1)
    log, parameters = cluster.log(SAMPLES), cluster.log(PARAMETERS)
    first = owner_of(Store(SETTINGS, broker=MemoryBroker(cluster, "a")))
    first.restore()
    for batch in batches(60):
        log.append(0, b"main", encode(batch))
    feed(first, log.read(0, 100)[0])
    other = Bucket("main", "c2ucb", DIM, 2, ridge=3.0, epoch=2)
    rollout = encode(rollout_of(other, BUCKET, now_ms=0))
    parameters.append(0, f"{ROLLOUT}main".encode(), rollout)
    assert not_taken_up(first) == "a rollout of main"
    seen = []
    for name in map(str, range(61)):  # each takes over from the one before, does one round, and is killed
        owner = owner_of(Store(SETTINGS, broker=MemoryBroker(cluster, name)))
        owner.restore()
        assert not_taken_up(owner) == ""
        seen.append(owner.learner.behind_from)
        if not owner.behind:
            break
        catch_up(owner)
        parameters.compact()
    assert seen[-1] is None
    assert len(set(seen)) > 3, "several rounds, each from where the last one was"
    assert seen[:-1] == sorted(seen[:-1])
    found = owner.store.read()
    assert (found.snapshots["main"].version, found.candidates) == ((2, log.end), {})
    model = other.model()
    for batch in batches(60):
        model.learn(samples_of(batch))
    assert found.snapshots["main"].sha256 == model.sha256()
    left = {record.key: record.value for record in parameters.records}
    assert {key for key, value in left.items() if value is None} == {b"@candidate-main", b"@candidate-main#1"}
