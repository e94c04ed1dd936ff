"""An owner whose restoration takes long or fails, whose reader has no record, and that is closed meanwhile."""

import threading
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from kafka import TopicPartition
from memory_broker import MemoryBroker
from memory_cluster import MemoryCluster
from owned import one_by_one
from sample_batches import make_batch

from schemas.codec import encode
from streams.learn.job.health import LearnHealth
from streams.learn.job.owner import NotAssigned
from streams.learn.job.worker import LearnJob
from streams.parameters import ROLLOUT, rollout_of
from streams.settings import Bucket, Settings, Topics

BUCKET = Bucket("main", "c2ucb", 3, 4)
SETTINGS = Settings(buckets={"main": BUCKET})
TOPICS = Topics.of(SETTINGS)


class Reader:
    """The reader of one samples partition on a broker in memory, and the job that it feeds."""

    def __init__(self):
        self.cluster = MemoryCluster(Random(1), interfere=lambda client, name: self.interfere(name))
        for topic in (TOPICS.samples, TOPICS.parameters, TOPICS.dead_letters):
            self.cluster.add_topic(topic, 1)
        self.interfere = lambda name: ""
        self.assigned, self.sought = True, []
        self.job = LearnJob(SETTINGS, seek=self.seek, broker=MemoryBroker(self.cluster, "worker"), run=one_by_one)
        self.job.assign([0])
        self.health = LearnHealth(self.job, lagging=lambda number: False, assigned=lambda: True)

    @property
    def owner(self):
        return self.job.owners[0]

    @property
    def log(self):
        return self.cluster.log(TopicPartition(TOPICS.samples, 0))

    def seek(self, partition, offset):
        self.sought.append(offset)
        if not self.assigned:
            raise NotAssigned("a rebalance is under way")
        self.job.sought(partition, offset)

    def write(self, count):
        for _ in range(count):
            batch, _ = make_batch("main", 2, seed=self.cluster.rng.getrandbits(20))
            self.log.append(0, b"main", encode(batch))

    def learn(self):
        """Poll, feed and checkpoint from the owner's position; return whether the records were kept."""
        records = self.log.read(self.owner.position or 0, 100)[0]
        kept = self.job.feed(0, records)
        self.job.checkpoint({0: records[-1].offset})
        return kept


@pytest.fixture
def reader():
    made = Reader()
    made.write(5)
    made.job.maintain()
    assert made.learn()
    assert made.owner.position == 5
    return made


@contextmanager
def restoring(reader):
    """Have an owner restored again, and hold that up until the block ends."""
    begun, go = threading.Event(), threading.Event()

    def hold_up(name):
        begun.set()
        go.wait(20)
        return ""

    reader.interfere = hold_up
    reader.owner.lost("the log does not have its next record any more")
    restoration = threading.Thread(target=reader.owner.maintain)
    restoration.start()
    assert begun.wait(10)
    yield
    go.set()
    restoration.join(20)


def test_nothing_is_kept_for_a_refused_partition_however_much_is_read(reader):
    reader.log.records, reader.log.end = reader.log.records[:2], 2
    reader.owner.lost("the log does not have its next record any more")
    reader.job.maintain()
    assert "ends at 2, but was learned to 5" in reader.owner.refused
    reader.write(5)
    for _ in range(3):
        assert not reader.learn()
        reader.job.maintain()
    assert len(reader.owner.pending) == 0
    assert "ends at 2" in reader.health.ready()
    assert reader.health.live() is None


LAGS = {  # restored, read, how far the reader is and where the log ends, whether it lags
    "learned to the end": (True, True, (5, 5), False),
    "a marker follows": (True, True, (6, 6), False),
    "not fetched yet": (True, True, (5, 9), True),
    "nothing known yet": (True, True, (None, None), False),
    "held before the end": (True, False, (0, 9), True),
    "held at the end": (True, False, (0, 5), False),
    "not restored": (False, False, (0, 9), True),
    "not restored, the log is empty": (False, False, (0, 0), False),
    "not restored, the end is not known": (False, False, (None, None), False),
}


@pytest.mark.parametrize("restored, read, progress, lags", LAGS.values(), ids=LAGS)
def test_a_partition_lags_while_there_are_records_to_learn(reader, restored, read, progress, lags):
    if not read:
        reader.owner.hold()
    if not restored:
        reader.owner.lost("the log does not have its next record any more")
        reader.interfere = lambda name: "request"
        reader.job.maintain()
    assert reader.owner.lags(*progress) == lags


def test_what_was_fed_and_not_learned_lags(reader):
    reader.write(1)
    reader.job.feed(0, reader.log.read(5, 100)[0])
    assert reader.owner.lags(6, 6)


def test_a_checkpoint_does_not_wait_for_a_restoration(reader):
    with restoring(reader):
        checkpoint = threading.Thread(target=reader.owner.checkpoint, args=[7])
        checkpoint.start()
        checkpoint.join(5)
        assert not checkpoint.is_alive(), "the other partitions wait for it"
    assert reader.owner.ready


def test_a_closed_owner_sends_the_reader_nowhere(reader):
    """Its partition may be another owner's by now."""
    before = len(reader.sought)
    with restoring(reader):
        [gone] = reader.job.assign([])
        closing = threading.Thread(target=gone.close)
        closing.start()
        while not gone._closed:
            pass
    closing.join(20)
    assert len(reader.sought) == before
    assert gone.position is None


def test_a_partition_that_is_not_assigned_yet_is_no_reason_to_hurry(reader):
    epoch_2 = replace(BUCKET, ridge=3.0, epoch=2)
    rollout = encode(rollout_of(epoch_2, BUCKET, now_ms=0))
    reader.cluster.log(TopicPartition(TOPICS.parameters, 0)).append(0, f"{ROLLOUT}main".encode(), rollout)
    reader.assigned = False
    busy = [reader.job.maintain() for _ in range(10)]
    assert reader.owner.behind
    assert not any(busy)
    reader.assigned = True
    busy = [reader.job.maintain() for _ in range(10)]
    assert any(busy)
    assert not busy[-1]
    assert reader.owner.newest["main"].version == (2, 5)


def test_a_lost_place_is_told_until_the_partition_is_read_again(reader, caplog):
    why = "the log does not have its next record any more"
    reader.owner.lost(why)
    assert [record.levelname for record in caplog.records if why in record.message] == ["WARNING"]
    assert why in reader.health.ready()
    reader.job.maintain()
    assert reader.health.ready() is None
    assert reader.sought == [0, 5]
