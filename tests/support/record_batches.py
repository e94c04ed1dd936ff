"""Batches of records as a broker answers them, and kafka-python's fetcher that has one, without a connection."""

from collections import deque
from types import SimpleNamespace

from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

PARTITION = TopicPartition("impressions", 0)


def batch(rows, *, codec=0, base=0, producer=-1, append_time=None, control=False, step=1, size=1 << 22):
    """Return the bytes of one batch of format 2, as a broker would answer them."""
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=size,
    )
    for number, (stamp, key, value, headers) in enumerate(rows):
        made.append(number * step, stamp, key, value, headers)
    data = bytearray(made.build())
    data[:8] = base.to_bytes(8, "big")
    if append_time is not None:
        data[22] |= 8
        data[35:43] = append_time.to_bytes(8, "big")
    if control:
        data[22] |= 32
    return signed(data)


def signed(data):
    """Return a batch with the checksum of what it holds."""
    data[17:21] = calc_crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def fetcher_of(data, *change, partitions=(PARTITION,)):
    """Return a fetcher that has an answer of the broker for the first partition, changed by some workarounds."""
    fetcher = object.__new__(Fetcher)
    fetcher.config = Fetcher.DEFAULT_CONFIG
    fetcher._subscriptions = SubscriptionState()
    fetcher._subscriptions.assign_from_user(partitions)
    for partition in partitions:
        fetcher._subscriptions.seek(partition, 0)
    fetcher._completed_fetches, fetcher._sensors = deque(), None
    fetcher._paused_completed_fetches, fetcher._paused_partition_records = {}, {}
    fetcher._next_in_line_exception_metadata = None
    for workaround in change:
        workaround(SimpleNamespace(_fetcher=fetcher))
    fetcher._next_partition_records = parsed(fetcher, partitions[0], data)
    return fetcher


def parsed(fetcher, partition, data):
    """Return what a fetcher's parser makes of an answer."""
    return fetcher.PartitionRecords(0, partition, MemoryRecords(data), isolation_level=1)
