"""The short cut through kafka-python's parser reads what the library reads, on every form of batch."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from streams.broker import UnreadableBatch
from streams.broker.lean_records import LeanPartitionRecords, lean_rows, read_lean

PLACE = TopicPartition("impressions", 0)
START_MS = 1_700_000_000_000
PLAIN = [(START_MS + 7 * n, b"key %d" % n, b"v" * (n % 40), []) for n in range(300)]
COMMON = {
    "plain": PLAIN,
    "no key": [(START_MS, None, b"value", [])] * 3,
    "tombstone": [(START_MS, b"key", None, [])],
    "nothing at all": [(START_MS, None, None, [])],
    "empty key and value": [(START_MS, b"", b"", [])],
    "long value": [(START_MS, b"key", b"x" * size, []) for size in (63, 64, 8191, 8192, 900_000)],
    "long key": [(START_MS, b"k" * 200, b"", [])],
    "time goes back": [(START_MS - n * n * 1000, b"k", b"v", []) for n in range(60)],
}
UNUSUAL = {
    "headers": [*PLAIN[:4], (START_MS, b"k", b"v", [("trace", b"1"), ("none", None)])],
    "far in time": [(START_MS, b"k", b"v", []), (START_MS + (1 << 40), b"k", b"v", [])],
}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(rows, *, codec=0, base=0, producer=-1, append_time=None, control=False, step=1):
    """Return the bytes of one batch of format 2, as a broker would answer them."""
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1 << 22,
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


def read(parser, data, *, at=0, aborted=(), take=None):
    """Return all that a parser reads of an answer, and where it would fetch next."""
    found, left = [], parser(at, PLACE, MemoryRecords(data), isolation_level=1, aborted_transactions=aborted)
    while left:
        found += [(one.offset, one.timestamp, one.key, one.value) for one in left.take(take)]
        found.append(left.next_fetch_offset)
    return found, left.leader_epoch, left.records_read


def same(data, **options):
    """Assert that both read the same, in whatever pieces, and return it."""
    for take in (None, 1, 7):
        found = read(LeanPartitionRecords, data, take=take, **options)
        assert found == read(Fetcher.PartitionRecords, data, take=take, **options)
    return [row for row in found[0] if isinstance(row, tuple)]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("rows", [*COMMON.values(), *UNUSUAL.values()], ids=[*COMMON, *UNUSUAL])
def test_every_form_of_batch(rows, codec):
    data = batch(rows, codec=codec, base=1 << 40)
    assert len(same(data, at=0)) == len(rows)
    same(batch(rows, codec=codec, append_time=START_MS + 5), at=2)
    same(batch(rows, codec=codec, producer=4) + batch(PLAIN, codec=codec, base=1000))
    assert (lean_rows(DefaultRecordBatch(data)) is None) == (rows in UNUSUAL.values())


def test_offsets_that_were_compacted_away_and_fetches_that_begin_inside():
    data = batch(PLAIN, step=30) + batch(PLAIN, base=20_000)
    assert len(same(data, at=8000)) == 300 - 267 + 300
    same(data, at=20_299)
    same(b"")


def test_markers_and_aborted_transactions_are_passed_over():
    abort, commit = ([(START_MS, key, b"\0\0\0\0\0\0", [])] for key in (b"\0\0\0\0", b"\0\0\0\1"))
    data = b"".join(
        (
            batch(PLAIN, producer=1),
            batch(PLAIN, producer=2, base=300),
            batch(abort, producer=1, base=600, control=True),
            batch(PLAIN, producer=1, base=601),
            batch(commit, producer=2, base=901, control=True),
            batch(commit, producer=1, base=902, control=True),
        )
    )
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    assert [row[0] for row in same(data, aborted=aborted)] == [*range(300, 600), *range(601, 901)]


def test_batches_of_the_old_formats():
    for magic in (0, 1):
        made = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
        for number in range(4):
            made.append(number, START_MS, b"key", b"value %d" % number)
        assert len(same(bytes(made.build()), at=1)) == 3


@pytest.mark.parametrize("rows", [PLAIN[:5], UNUSUAL["headers"]], ids=["plain", "headers"])
def test_damaged_bytes_are_refused_or_read_as_the_library_does(rows):
    good = batch(rows)
    for at in range(61, len(good)):
        for byte in (0, 1, 2, 127, 128, 255):
            bad = bytearray(good)
            bad[at] = byte
            with pytest.raises(UnreadableBatch, match="CorruptRecord") if bytes(bad) != good else nullcontext():
                read(LeanPartitionRecords, bytes(bad))
            assert outcome(LeanPartitionRecords, signed(bad)) == outcome(Fetcher.PartitionRecords, signed(bad))


def outcome(parser, data):
    """Return what a parser reads before it raises, and the class of what is wrong."""
    left, found = parser(0, PLACE, MemoryRecords(data), isolation_level=1), []
    try:
        while left:
            found += [(one.offset, one.timestamp, one.key, one.value) for one in left.take(1)]
    except Exception as error:  # whatever the library raises
        return found, type(error.__cause__ or error)
    return found, None


def test_the_library_still_takes_its_parser_from_where_it_is_put(settings_for):
    consumer = KafkaConsumer(**settings_for().kafka_options())
    assert consumer._fetcher.PartitionRecords is Fetcher.PartitionRecords
    read_lean(consumer)
    assert consumer._fetcher.PartitionRecords is LeanPartitionRecords
    consumer.close()
