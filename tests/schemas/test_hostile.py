"""Whatever bytes arrive: a record or a SchemaError, and no more memory than the bytes justify."""

import math
import struct
import tracemalloc
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import expand_schema
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import to_builtins

from schemas.codec import MAX_BYTES, SchemaError, decode, encode
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import Click, DeadLetter, Impression, Progress, SampleBatch, Snapshot
from schemas.strict import check

HEADERS = {cls: writer_of(SCHEMAS[cls]).header for cls in SCHEMAS}
PLAIN_HEADERS = {cls: writer_of(PLAIN[cls]).header for cls in PLAIN}


def refused(data):
    try:
        record = decode(data)
    except SchemaError:
        return True
    out = BytesIO()
    plain = data[:10] == PLAIN_HEADERS.get(type(record))
    schemaless_writer(out, (PLAIN if plain else SCHEMAS)[type(record)], to_builtins(record, builtin_types=(bytes,)))
    same = out.getvalue() == data[10:]
    assert same or isinstance(record, SampleBatch | Snapshot)  # arrays may be cut into blocks in more than one way
    return False


@given(cls=st.sampled_from(list(SCHEMAS)), body=st.binary(max_size=200))
def test_random_bytes_are_refused_or_are_the_one_way_to_write_their_record(cls, body):
    refused(body)
    refused(HEADERS[cls] + body)
    refused(PLAIN_HEADERS.get(cls, b"") + body)


@given(record=st.one_of(*(st.from_type(cls) for cls in SCHEMAS)), data=st.data())
def test_spoiled_records_are_refused_or_are_the_one_way_to_write_another(record, data):
    good = encode(record)
    at = data.draw(st.integers(10, len(good)))
    gone = data.draw(st.integers(0, 4))
    refused(good[:at] + data.draw(st.binary(max_size=4)) + good[at + gone :])


@given(record=st.one_of(*(st.from_type(cls) for cls in SCHEMAS)), extra=st.binary(min_size=1, max_size=3))
def test_no_byte_may_follow_and_none_may_lack(record, extra):
    good = encode(record)
    assert refused(good + extra)
    assert refused(good[:-1])


def varint(number):
    out = BytesIO()
    schemaless_writer(out, "long", number)
    return out.getvalue()


CLICK = HEADERS[Click]
HEAD = b"\2i\2s"
TIME = varint(1_731_700_000_000)
NAMES = PLAIN_HEADERS[SampleBatch] + bytes(7)  # up to the array of impression ids
STATES = HEADERS[Snapshot] + bytes(8 + 3 * 8 + 1 + 2 * 8 + 4)  # up to the array of states
ATTACKS = {
    "a string of 1.4 GB in 5 bytes": (CLICK + varint(1_400_000_000), "length of 1400000000 where 0 bytes"),
    "a string of 2^62 bytes": (CLICK + varint(1 << 62), "length of 4611686018427387904"),
    "a string of negative length": (CLICK + varint(-3) + b"abc" + HEAD, "length of -3"),
    "a varint without an end": (CLICK + b"\xff" * 1000, "more than 64 bits"),
    "a number of 65 bits": (HEADERS[Progress] + b"\0\0" + b"\xff" * 9 + b"\2" + TIME, "than 64 bits"),
    "a position of 33 bits": (CLICK + HEAD + varint(1 << 32) + TIME + bytes(8), "more than 32 bits"),
    "a varint longer than it needs": (CLICK + HEAD + b"\x82\0" + TIME + bytes(8), "longer than it needs"),
    "a time longer than it needs": (
        CLICK + HEAD + b"\2" + TIME[:-1] + bytes([TIME[-1] | 128, 0]) + bytes(8),
        "longer than it needs",
    ),
    "a version longer than it needs": (
        encode(Impression("", "", "", "", 1 << 40, bytes(8), b"", 1))[:-1] + b"\x81\0",
        "longer than it needs",
    ),
    "a version longer than it needs before what came later": (
        encode(Impression("", "", "", "", 1 << 40, bytes(8), b"", 1, split_version="v"))[:-7] + b"\x81\0\2v\0\0\0\0",
        "longer than it needs",
    ),
    "candidates of 2^40 bytes": (
        encode(Impression("", "", "", "", 1 << 40, bytes(8), b"", 1, split_version="v"))[:-2] + varint(1 << 40) + b"\0",
        "length of 1099511627776",
    ),
    "half a character": (CLICK + b"\2\xc3\2s\2" + TIME + bytes(8), "not UTF-8"),
    "a surrogate": (CLICK + b"\6\xed\xa0\x80\2s\2" + TIME + bytes(8), "not UTF-8"),
    "a union's branch -1": (HEADERS[DeadLetter] + b"\0\0\0\0\1\0\0", "branch -1 of 2"),
    "a union's branch 2": (HEADERS[DeadLetter] + b"\0\0\0\0\4\0\0", "branch 2 of 2"),
    "an array of 2^60 names": (NAMES + varint(1 << 60), "block of 1152921504606846976 items where 0"),
    "an array of -2^63 names": (NAMES + varint(-(1 << 63)) + b"\2\0", "block of 9223372036854775808 items"),
    "a block that lies about its bytes": (NAMES + varint(-1) + b"\4\0" + bytes(8), "said to end at"),
    "a block of negative bytes": (NAMES + varint(-1) + b"\3\0" + bytes(8), "length of -2"),
    "a million empty names": (NAMES + varint(1_000_000) + bytes(1_000_008), "more than 65536 values"),
    "half a million blocks of a name": (NAMES + b"\2\0" * 500_000 + bytes(8), "more than 65536 values"),
    "a quarter million empty states": (STATES + varint(250_000) + bytes(1_000_000), "more than 65536 values"),
    "a header alone": (HEADERS[Snapshot], "end in the middle"),
    "a megabyte of zeros": (HEADERS[Snapshot] + bytes(MAX_BYTES - 10), "trailing bytes"),
    "more than the limit": (HEADERS[Click] + bytes(MAX_BYTES), "limit of 1048576"),
}


@pytest.mark.parametrize("data, reason", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_and_takes_no_memory(data, reason):
    tracemalloc.start()
    try:
        with pytest.raises(SchemaError, match=reason):
            decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_BYTES


def test_memory_of_what_is_accepted_is_a_small_multiple_of_the_limit():
    rows = 15_000
    batch = SampleBatch(
        *("b", 0, bytes(8 * rows), b"\1" * rows, bytes(rows), bytes(8 * rows), b""),
        *([f"{n:04x}" for n in range(rows)], b"\1" * rows, b"\1" * rows),
        *(bytes(width * rows) for width in (8, 4, 8, 4, 8)),
    )
    data = encode(batch)
    assert 0.7 * MAX_BYTES < len(data) < MAX_BYTES
    tracemalloc.start()
    try:
        assert decode(data) == batch
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_BYTES


RICH = {
    "type": "record",
    "name": "Rich",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "single", "type": "float"},
        {"name": "counts", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "choice", "type": ["null", "double", "string", "Hash", {"type": "array", "items": "bytes"}]},
    ],
}
EXPANDED = expand_schema(RICH)
INTS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)
CHOICE = st.none() | st.floats(width=32) | st.text(max_size=4) | st.lists(st.binary(max_size=3), max_size=3)
rows = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "kind": st.sampled_from("ABC"),
        "hash": st.binary(min_size=3, max_size=3),
        "single": st.floats(width=32),
        "counts": st.dictionaries(st.text(max_size=3), INTS, max_size=3),
        "choice": CHOICE,
    }
)


@given(row=rows, gone=st.integers(1, 5))
@example(row={"flag": True, "kind": "C", "hash": b"abc", "single": math.inf, "counts": {}, "choice": None}, gone=1)
def test_the_strict_walk_ends_where_fastavro_does(row, gone):
    out = BytesIO()
    schemaless_writer(out, parse_schema(RICH), row)
    data = out.getvalue()
    check(EXPANDED, b"head" + data, 4)
    for spoiled in (data + b"\0", data[:-gone]):
        with pytest.raises(SchemaError):
            check(EXPANDED, spoiled)


START = b"\1\4abc" + struct.pack("<f", 1)
MALFORMED = {
    "a boolean of 2": b"\2" + START[1:] + b"\0\0",
    "an enum's symbol 3": b"\1\6abc" + START[5:] + b"\0\0",
    "an enum's symbol -1": b"\1\1abc" + START[5:] + b"\0\0",
    "a map's count beyond its bytes": START + varint(100) + b"\0" * 9,
    "an int in a map of 33 bits": START + b"\2\0\2" + varint(1 << 31) + b"\0\0\0",
    "a union's branch 5": START + b"\0" + varint(5),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_the_strict_walk_refuses(data):
    check(EXPANDED, START + b"\0\0")
    with pytest.raises(SchemaError):
        check(EXPANDED, data)


def test_blocks_may_state_their_bytes():
    schema = {"type": "array", "items": "string"}
    check(schema, varint(-2) + varint(4) + b"\2a\2b" + b"\2\2c\0")
