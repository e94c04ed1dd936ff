"""Owners and rounds of the learn job, apart from Faust, on a real broker."""

import asyncio

import pytest
from sample_batches import SampleWriter, committed, learned

from streams.learn.job.owner import PartitionOwner
from streams.learn.job.rounds import Delivered, Learning
from streams.learn.job.store import Store
from streams.logs import LogRecord
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Topics


def test_an_owner_that_was_fenced_cannot_publish(settings_for):
    settings = settings_for(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1)
    writer = SampleWriter(settings)
    writer.write()
    [record] = committed(settings, Topics.of(settings).samples)
    old, new = (PartitionOwner(Store(settings), 0) for _ in range(2))
    old.restore()
    new.restore()
    raw = LogRecord(record.offset, record.timestamp, record.key, record.value)
    with pytest.raises(Exception, match="Fenced"):
        old.learn([raw])
    new.learn([raw])
    reader = KafkaParameters(settings)
    assert learned(reader, writer)
    assert reader.snapshots["main"].version == (1, record.offset + 1)
    for one in (old, new):
        one.drop()
    for one in (reader, writer):
        one.close()


def test_records_that_are_missing_are_asked_for_again(settings_for):
    """Whatever the transport loses or repeats, a round only continues the log."""
    settings = settings_for(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1)
    writer = SampleWriter(settings)
    for _ in range(6):
        writer.write(lists=3)
    records = [LogRecord(one.offset, 0, one.key, one.value) for one in committed(settings, Topics.of(settings).samples)]
    follows = [0, *(record.offset + 1 for record in records)]
    sought = []

    async def seek(partition, offset):
        sought.append(offset)
        return len(sought)

    def delivered(*numbers, since):
        return [Delivered(0, since, follows[number], records[number]) for number in numbers]

    async def play():
        learning = Learning(settings, seek=seek)
        learning.assign([0])
        await learning.take(delivered(0, since=0))  # not restored yet
        await learning.tend()
        assert (sought, learning.places[0].ready) == ([0], True)
        await learning.take(delivered(0, 1, 3, since=1))  # 2 is missing
        assert sought == [0, follows[2]]
        await learning.take(delivered(4, 5, since=1))  # was on its way when the consumer was sent back
        assert sought == [0, follows[2]]
        await learning.take(delivered(1, 2, 3, 4, 5, since=2))  # 1 is there again
        assert learning.offsets() == {0: follows[6]}
        learning.assign([])
        assert learning.offsets() == {}
        await learning.stop()
        learning.store.close()

    asyncio.run(play())
    reader = KafkaParameters(settings)
    assert learned(reader, writer)
    for one in (reader, writer):
        one.close()


def test_who_is_fenced_lets_the_group_say_whose_partition_it_is(settings_for):
    """A worker that slept would otherwise fence the one that took over, and be fenced, and so on."""
    settings = settings_for(buckets={"main": Bucket("main", "c2ucb", dim=3, positions=4)}, partitions=1)
    writer = SampleWriter(settings)
    writer.write()
    [one] = committed(settings, Topics.of(settings).samples)
    record = LogRecord(one.offset, 0, one.key, one.value)

    async def seek(partition, offset):
        return 1

    async def play():
        slept, awake = (Learning(settings, seek=seek) for _ in range(2))
        for learning in (slept, awake):
            learning.assign([0])
            await learning.tend()
        await slept.take([Delivered(0, 1, 0, record)])
        assert "Fenced" in slept.places[0].trouble
        await slept.tend()
        assert not slept.places[0].ready
        await awake.take([Delivered(0, 1, 0, record)])
        assert awake.offsets() == {0: record.offset + 1}
        for learning in (slept, awake):
            await learning.stop()
            learning.store.close()

    asyncio.run(play())
    reader = KafkaParameters(settings)
    assert learned(reader, writer)
    for one in (reader, writer):
        one.close()
