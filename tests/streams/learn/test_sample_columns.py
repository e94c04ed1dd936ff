"""The columns that are learned, read as views: those of the batch, from the bytes that a batch is read from."""

from dataclasses import replace

import pytest
from sample_batches import make_batch

from schemas.codec import MAX_BYTES, SchemaError, decode, encode
from schemas.records import SampleBatch
from streams.learn.lists import read_sample_columns

LEARNED = ("items", "positions", "last_clicks", "rewards", "contexts", "sizes", "signs")
LISTS = {"ids of one length": 9, "of several": 30, "no lists": 0}


def read(data: bytes) -> list[object] | None:
    try:
        found = read_sample_columns(data)
    except SchemaError:
        return None
    return [found.bucket, found.dim, *((column.shape, column.tobytes()) for column in columns(found, LEARNED))]


def of_batch(batch: SampleBatch) -> list[object]:
    names = [f"{name}_array" for name in LEARNED]
    return [batch.bucket, batch.dim, *((column.shape, column.tobytes()) for column in columns(batch, names))]


def columns(of, names):
    return [getattr(of, name) for name in names]


@pytest.mark.parametrize("version", ["", "autumn-2"], ids=["plain", "full"])
@pytest.mark.parametrize("lists", LISTS.values(), ids=LISTS)
def test_columns_are_those_of_the_batch(lists, version):
    batch = replace(make_batch("main", lists, seed=lists)[0], split_version=version)
    assert read(encode(batch)) == of_batch(batch)


@pytest.mark.parametrize("lists", [3, 11])
def test_columns_are_read_from_what_a_batch_is_read_from_and_from_nothing_else(lists):
    data, good = encode(make_batch("main", lists, seed=1, dim=1)[0]), 0
    for at in range(len(data)):
        for other in (data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :], data[:at]):
            try:
                wanted = of_batch(decode(other, SampleBatch))
            except SchemaError:
                wanted = None
            assert read(other) == wanted, at
            good += wanted is not None
    assert 0 < good < len(data)
    assert read(data + b"\0") is None
    assert read(data[:10] + bytes(MAX_BYTES)) is None
