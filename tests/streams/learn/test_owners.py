"""Owners of samples partitions, apart from Faust, on a real broker."""

from contextlib import closing

import pytest
from owned import feed, owner_of
from sample_batches import SampleWriter, committed, learned

from streams.learn.job.store import Store
from streams.learn.job.worker import LearnJob
from streams.logs import LogRecord
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Topics


@pytest.fixture
def written(settings_for):
    """Settings of one bucket and one partition, with a writer of samples."""
    settings = settings_for(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1)
    with closing(SampleWriter(settings)) as writer:
        yield settings, writer


def records_of(settings):
    samples = committed(settings, Topics.of(settings).samples)
    return [LogRecord(record.offset, 0, record.key, record.value) for record in samples]


def all_learned(settings, writer):
    with closing(KafkaParameters(settings)) as reader:
        return learned(reader, writer) and reader.snapshots["main"].version


def test_an_owner_that_was_fenced_cannot_publish(written):
    settings, writer = written
    writer.write()
    [record] = records_of(settings)
    old, new = (owner_of(Store(settings)) for _ in range(2))
    old.restore()
    new.restore()
    feed(old, [record])
    assert "Fenced" in old.refused
    assert old.learner is None
    feed(new, [record])
    assert all_learned(settings, writer) == (1, record.offset + 1)
    for owner in (old, new):
        owner.close()


def test_records_that_are_missing_are_asked_for_again(written):
    """Whatever the transport loses or repeats, a round only continues the log."""
    settings, writer = written
    for _ in range(6):
        writer.write(lists=3)
    records = records_of(settings)
    ends = [0, *(record.offset + 1 for record in records)]
    sought = []

    def seek(partition, offset):
        sought.append(offset)
        job.sought(partition, offset)

    job = LearnJob(settings, seek=seek)
    job.assign([0])
    owner = job.owners[0]
    assert not job.feed(0, records[:1])  # held: nobody has sought yet
    job.checkpoint({0: records[0].offset})
    job.maintain()
    assert (sought, owner.ready, owner.position) == ([0], True, 0)
    assert job.feed(0, records[:2])
    job.checkpoint({0: records[1].offset})
    assert owner.position == ends[2]
    job.sought(0, ends[3])  # somebody sent the reader elsewhere: 2 is missing
    assert job.feed(0, records[3:4])
    job.checkpoint({0: records[3].offset})
    assert (sought, owner.position, job.watch.totals["gaps"]) == ([0, ends[2]], ends[2], 1)
    job.checkpoint({0: records[5].offset})  # of events that were on their way when the reader was sent back
    assert owner.position == ends[2]
    job.sought(0, ends[1])
    assert job.feed(0, records[1:])  # 1 is there again
    job.checkpoint({0: records[4].offset})
    assert owner.position == ends[5]
    job.checkpoint({0: records[5].offset})
    assert owner.position == ends[6]
    [gone] = job.assign([])
    gone.close()
    assert (gone.position, job.owners) == (None, {})
    job.store.close()
    assert all_learned(settings, writer)


def test_an_assignment_is_read_again_from_the_position_and_keeps_the_learner(written):
    settings, writer = written
    writer.write()
    sought = []
    job = LearnJob(settings, seek=lambda partition, offset: sought.append(offset))
    job.assign([0])
    job.owners[0].maintain()
    feed(job.owners[0], records_of(settings))
    owner, learner = job.owners[0], job.owners[0].learner
    assert not owner.due
    assert job.assign([0]) == []
    assert owner.due
    assert not owner.ready
    owner.maintain()
    assert (owner.ready, owner.learner is learner, sought) == (True, True, [0, owner.position])
    owner.close()
    job.store.close()


def test_who_is_fenced_lets_the_group_say_whose_partition_it_is(written):
    """A worker that slept would otherwise fence the one that took over, and be fenced, and so on."""
    settings, writer = written
    writer.write()
    [record] = records_of(settings)
    slept, awake = (owner_of(Store(settings)) for _ in range(2))
    for owner in (slept, awake):
        owner.maintain()
        assert owner.ready
    feed(slept, [record])
    assert "Fenced" in slept.refused
    slept.maintain()
    assert not slept.ready
    feed(awake, [record])
    assert awake.position == record.offset + 1
    for owner in (slept, awake):
        owner.close()
        owner.store.close()
    assert all_learned(settings, writer)
