"""The short cut through kafka-python's parser reads what the library reads, on every form of batch."""

import gzip
import tracemalloc
import zlib
from functools import partial
from types import SimpleNamespace

import lz4.frame
import numpy as np
import pytest
import zstandard
from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from record_batches import PARTITION, batch, fetcher_of, signed

from streams.broker.lean_records import LeanPartitionRecords, UnreadableBatch, lean_rows
from streams.broker.workarounds import parse_records

LEAN = partial(parse_records, headers=False)
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
    "headers": [*PLAIN[:4], (START_MS, b"k", b"v", [("trace", b"1"), ("none", None)])],
    "time goes back": [(START_MS - n * n * 1000, b"k", b"v", []) for n in range(60)],
}
UNUSUAL = {
    "far in time": [(START_MS, b"k", b"v", []), (START_MS + (1 << 40), b"k", b"v", [])],
}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def read(parser, data, *, at=0, aborted=(), take=None):
    """Return all that a parser reads of an answer, and where it would fetch next."""
    found, left = [], parser(at, PARTITION, MemoryRecords(data), isolation_level=1, aborted_transactions=aborted)
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


@pytest.mark.parametrize("rows", [PLAIN[:5], COMMON["headers"]], ids=["plain", "headers"])
def test_damaged_bytes_are_refused_and_bytes_that_were_written_so_are_handed_out(rows):
    good = batch(rows)
    for at in range(61, len(good)):
        for byte in (0, 1, 2, 127, 128, 255):
            bad = bytearray(good)
            bad[at] = byte
            with pytest.raises(UnreadableBatch) if bytes(bad) != good else pytest.MonkeyPatch.context():
                read(LeanPartitionRecords, bytes(bad))
            found = [row for row in read(LeanPartitionRecords, signed(bad))[0] if isinstance(row, tuple)]
            try:
                wanted = [row for row in read(Fetcher.PartitionRecords, signed(bad))[0] if isinstance(row, tuple)]
            except CorruptRecordError:  # of headers nothing is read
                wanted = []
            if [row[0] for row in wanted] == [*range(5)]:
                assert found == wanted
            else:
                assert [row[0] for row in found] == [*range(5)]


def polled(data):
    """Return the polls that an answer makes, up to the first empty one."""
    fetcher, found = fetcher_of(data, LEAN), []
    while rows := fetcher.fetched_records(4_000)[0].get(PARTITION):
        found.append(rows)
    return found


def packed(data, codec):
    """Return a batch whose records are ``data`` as they stand, said to be packed by a codec."""
    made = bytearray(batch([(START_MS, b"k", b"v", [])] * 3)[:61]) + data
    made[22] |= codec
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    return signed(made)


def rows_of(values):
    """Return the records of a batch without its head."""
    return batch([(START_MS, b"k", value, []) for value in values])[61:]


@pytest.mark.timeout(20)
def test_a_failed_parser_is_not_asked_without_an_end():
    data = bytearray(batch(PLAIN[:3]))
    data[-1] ^= 1  # on its way
    fetcher = fetcher_of(bytes(data), LEAN)
    with pytest.raises(UnreadableBatch):
        fetcher.fetched_records()
    assert fetcher.fetched_records() == ({}, False)  # and it is fetched again


@pytest.mark.timeout(20)
def test_a_codec_that_is_not_there_holds_its_partition_alone():
    fetcher = fetcher_of(packed(b"", 5), LEAN)
    with pytest.raises(UnreadableBatch):
        fetcher.fetched_records()
    assert fetcher.fetched_records() == ({}, False)


def zeros(begin, compressor, size):
    """Return so many zeros as a compressor writes them, never whole in memory."""
    pieces = [begin, *(compressor.compress(bytes(1 << 20)) for _ in range(size >> 20)), compressor.flush()]
    return b"".join(pieces)


LZ4 = lz4.frame.compress(rows_of([b"1", b"2", b"3"]), content_checksum=True, block_linked=False)
WRITTEN_SO = {
    "a header's name in Latin-1": batch([(START_MS, b"k", b"v", [("name", b"")])]).replace(b"name", b"n\xe4me"),
    "bytes behind the end": packed(gzip.compress(rows_of([b"1", b"2", b"3"])) + b"more", 1),
    "a wrong sum of all": packed(LZ4[:-1] + bytes([LZ4[-1] ^ 1]), 3),
    "much in gzip": packed(zeros(b"", zlib.compressobj(1, wbits=31), 1 << 28), 1),
    "much in zstd": packed(zeros(b"", zstandard.ZstdCompressor().compressobj(), 1 << 30), 4),
    "much in lz4": packed(zeros((FRAME := lz4.frame.LZ4FrameCompressor()).begin(), FRAME, 1 << 28), 3),
    "one offset for all": (SAME := batch([(START_MS, b"k", b"v", [])] * 3, step=0))[:26] + b"\2" + SAME[27:],
    "times beyond all times": (AHEAD := batch([(0, b"k", b"v", []), (2**62, b"k", b"v", [])]))[:27]
    + (2**63 - 1).to_bytes(8, "big")
    + AHEAD[35:],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("data", WRITTEN_SO.values(), ids=WRITTEN_SO)
def test_whatever_was_written_is_handed_out_within_bounds(data):
    good, data = batch(PLAIN[:2], base=3), signed(bytearray(data))
    tracemalloc.start()
    [rows] = polled(data + good)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20
    count = int.from_bytes(data[57:61], "big")
    assert [row.offset for row in rows] == [*range(count), 3, 4]
    assert np.array([row.timestamp for row in rows], np.int64).size == len(rows)


def test_a_poll_ends_after_so_many_bytes():
    data = b"".join(batch([(START_MS, b"k", bytes(1 << 20), [])], codec=1, base=base) for base in range(200))
    found = polled(data)
    assert [row.offset for rows in found for row in rows] == [*range(200)]
    assert max(len(rows) for rows in found) <= 33


def test_the_library_still_takes_its_parser_from_where_it_is_put(settings_for):
    consumer = KafkaConsumer(**settings_for().kafka_options())
    assert consumer._fetcher.PartitionRecords is Fetcher.PartitionRecords
    parse_records(consumer, headers=False)
    assert consumer._fetcher.PartitionRecords is LeanPartitionRecords
    consumer.close()
