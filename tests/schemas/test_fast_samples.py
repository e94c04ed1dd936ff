"""The short cut for sample batches reads what the strict way reads, and nothing that it refuses."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from schemas import fast
from schemas.codec import SchemaError, _read, encode
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import SampleBatch


def batch(ids: list[str], dim: int = 2, *, full: bool = False) -> SampleBatch:
    lists, rows = len(ids), 3 * len(ids)
    numbers = np.random.default_rng(lists)
    return SampleBatch(
        *("main", dim, numbers.bytes(8 * rows), bytes([1, 2, 3] * lists), bytes([0, 0, 2] * lists)),
        *(numbers.bytes(8 * rows), numbers.bytes(4 * dim * rows), ids, bytes([3] * lists), bytes([1] * lists)),
        *(numbers.bytes(width * lists) for width in (8, 4, 8, 4, 8)),
        *(("autumn-2", numbers.bytes(8 * lists), numbers.bytes(4 * rows)) if full else ()),
    )


def strict(data: bytes, *, full: bool) -> SampleBatch | None:
    try:
        return _read(writer_of((SCHEMAS if full else PLAIN)[SampleBatch]), data, 10)
    except SchemaError:
        return None


COMMON = {"uuids": [f"6f1c2e8e-{n:04}" for n in range(70)], "one list": ["a"], "no lists": [], "empty ids": ["", ""]}


@pytest.mark.parametrize("ids", COMMON.values(), ids=COMMON)
@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_common_batches_take_the_short_cut(ids, dim, full):
    written = batch(ids, dim, full=full)
    assert fast.read_samples(encode(written), 10, full=full) == written


RARE = {"unequal lengths": ["a", "bc"], "long ids": ["x" * 64] * 2, "not ASCII": ["né", "nè"]}


@pytest.mark.parametrize("ids", RARE.values(), ids=RARE)
def test_rare_batches_are_left_to_the_strict_way(ids):
    written = batch(ids)
    assert fast.read_samples(encode(written), 10, full=False) is None
    assert strict(encode(written), full=False) == written


@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_whatever_it_reads_the_strict_way_reads_the_same(full):
    read_samples = partial(fast.read_samples, full=full)
    data, changed, read = encode(batch(["ab", "cd", "ef"], dim=0, full=full)), 0, 0
    for at in range(10, len(data)):
        for value in {0, 1, 2, 127, 128, 255, data[at] ^ 1, data[at] + 2 & 255} - {data[at]}:
            other = data[:at] + bytes([value]) + data[at + 1 :]
            found = read_samples(other, 10)
            changed += 1
            if found is not None:
                read += 1
                assert found == strict(other, full=full), at
    for size in range(10, len(data)):
        assert read_samples(data[:size], 10) is None
    assert read_samples(data + b"\0", 10) is None
    assert 0 < read < changed


def test_columns_that_do_not_fit_together_are_refused():
    good = batch(["ab", "cd"], full=True)
    for name in ("items", "rewards", "contexts", "signs", "source_offsets", "user_hashes", "propensities"):
        with pytest.raises(SchemaError, match=name):
            encode(replace(good, **{name: getattr(good, name) + b"\0"}))
