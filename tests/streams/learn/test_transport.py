"""A batch that aiokafka cannot read, next to partitions that it can."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.errors import CorruptRecordException

from streams.learn.job.transport import ReadableResults, end_before_unreadable

GOOD, BAD = TopicPartition("samples", 0), TopicPartition("samples", 1)


class Records:
    """What one fetch brought of a partition, as aiokafka's PartitionRecords: offsets up to ``end``."""

    def __init__(self, end, *, damaged):
        self.next_fetch_offset = 0
        self._records_iterator = self._unpack(end, damaged)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._records_iterator)

    def _unpack(self, end, damaged):
        for offset in range(end):
            self.next_fetch_offset = offset + 1
            yield offset
        if damaged:
            raise CorruptRecordException("Invalid CRC")


class State:
    """Where a partition is read."""

    paused, position = False, 0

    def consumed_to(self, position):
        self.position = position


@pytest.fixture
def fetcher():
    """A fetcher without a broker, whose results a test gives it."""
    made = Fetcher.__new__(Fetcher)
    made._records, made._closed, made._fetch_task = {}, True, None
    made._subscriptions = SimpleNamespace(reassignment_in_progress=False)
    made._wait_consume_future = made._fetch_waiters = None
    made._notify = lambda future: None
    return made


def fetch(fetcher):
    """Give the fetcher both partitions; return where each is read then, and a call that reads them."""
    states = {GOOD: State(), BAD: State()}
    assignment = SimpleNamespace(active=True, state_value=states.get)
    for partition, end in ((GOOD, 3), (BAD, 2)):
        records = Records(end, damaged=partition is BAD)
        fetcher._records[partition] = FetchResult(
            partition, assignment=assignment, partition_records=records, backoff=0
        )
    return states, lambda: asyncio.run(fetcher.fetched_records([], timeout=0))


def test_aiokafka_still_drops_what_it_fetched_of_other_partitions(fetcher):
    """Once this fails, ``end_before_unreadable`` is no longer needed."""
    states, read = fetch(fetcher)
    with pytest.raises(CorruptRecordException):
        read()
    assert states[GOOD].position == 3, "counted as delivered"
    assert GOOD not in fetcher._records


def test_what_comes_before_a_damaged_batch_is_read_and_the_batch_is_noted(fetcher):
    unreadable = {}
    end_before_unreadable(fetcher, unreadable)
    assert isinstance(fetcher._records, ReadableResults)
    states, read = fetch(fetcher)
    assert read() == {GOOD: [0, 1, 2], BAD: [0, 1]}
    assert (states[GOOD].position, states[BAD].position) == (3, 2)
    assert unreadable == {BAD: f"cannot read {BAD} at offset 2: {CorruptRecordException('Invalid CRC')!r}"}
