"""What is encoded comes back; what is not ours is refused by name."""

import math
from dataclasses import replace
from io import BytesIO

import pytest
from fastavro import schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs, to_builtins

from schemas.codec import Codec, SchemaError, decode, encode
from schemas.fast import read_click, read_full_impression, read_impression
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import Click, DeadLetter, Impression, SampleBatch, Snapshot, StateArray

CLICK = Click("i1", "s1", 3, 1_731_700_000_000, 0.5)
SHOWN = Impression("i1", "s1", "ubm", "u1", 1_731_700_000_000, bytes(16), bytes(24), 2, 1, 99)
FULL = structs.replace(
    SHOWN,
    split_version="autumn-2",
    catalogue="c7",
    propensities=bytes(8),
    candidate_items=bytes(24),
    candidate_contexts=bytes(36),
)
anything = st.one_of(*(st.from_type(cls) for cls in SCHEMAS))


@given(record=anything)
def test_a_record_comes_back(record):
    data = encode(record)
    assert decode(data) == record
    assert decode(data, type(record)) == record
    assert decode(memoryview(data)) == record
    assert hash(decode(encode(CLICK))) == hash(CLICK)


@given(record=st.from_type(Impression) | st.from_type(Click))
def test_the_short_cut_reads_what_fastavro_reads(record):
    data = encode(record)
    source = BytesIO(data)
    source.seek(10)
    plain = data[:10] == writer_of(PLAIN[Impression]).header
    slow = type(record)(**schemaless_reader(source, (PLAIN if plain else SCHEMAS)[type(record)]))
    read = read_impression if plain else read_full_impression
    quick = (read if isinstance(record, Impression) else read_click)(data, 10)
    assert slow == record
    assert quick in (None, record)
    if quick is not None:
        assert type(quick) is type(record)
        assert repr(quick) == repr(record)


def test_common_events_take_the_short_cut():
    assert read_impression(encode(SHOWN), 10) == SHOWN
    assert read_full_impression(encode(FULL), 10) == FULL
    assert read_click(encode(CLICK), 10) == CLICK


@pytest.mark.parametrize("cls", SCHEMAS, ids=lambda cls: cls.__name__)
def test_the_header_is_a_marker_and_the_fingerprint(cls):
    writer = writer_of(SCHEMAS[cls])
    assert writer.header == b"\xc3\x01" + writer.fingerprint
    assert len(writer.header) == 10


def test_a_record_of_another_class_is_refused():
    with pytest.raises(SchemaError, match="expected Impression, got Click; is this the right topic"):
        decode(encode(CLICK), Impression)


NO_RECORDS = {
    "a tombstone": (None, "tombstone"),
    "text": ("c301", "expected bytes, got str"),
    "nothing": (b"", "no bytes"),
    "JSON": (b'{"type": "click"}', "no Avro header"),
    "an unknown fingerprint": (b"\xc3\x01\x8f\x5c\x39\x3f\x1a\xd5\x75\x72\x02", "fingerprint 7275d51a3f395c8f"),
    "a registry's id": (b"\0\0\0\0\x07abc", "registry id 7"),
    "a cut header": (b"\xc3\x01\x8f", "got c3018f"),
}


@pytest.mark.parametrize("data, reason", NO_RECORDS.values(), ids=NO_RECORDS)
def test_what_is_no_record_is_named(data, reason):
    with pytest.raises(SchemaError, match=reason):
        decode(data)


def test_size_is_limited_before_decoding():
    data = encode(DeadLetter("t", 0, 1, 2, None, bytes(1 << 20), "large"))
    with pytest.raises(SchemaError, match=f"{len(data)} bytes are more than the limit of 1048576"):
        decode(data)
    assert len(decode(data, DeadLetter, max_bytes=len(data)).value) == 1 << 20
    with pytest.raises(SchemaError, match="limit of 20"):
        decode(encode(CLICK), max_bytes=20)


UNFIT = {
    "a fraction for a whole number": structs.replace(CLICK, position=1.5),
    "more than 32 bits": structs.replace(CLICK, position=1 << 31),
    "more than 64 bits": structs.replace(CLICK, clicked_at_ms=1 << 63),
    "text for a number": structs.replace(CLICK, reward="1.5"),
    "bytes for text": structs.replace(CLICK, impression_id=b"i1"),
    "half a character": structs.replace(CLICK, session_id="\ud800"),
    "nothing for a number": structs.replace(CLICK, position=None),
    "text for bytes": structs.replace(SHOWN, items="8 bytes."),
    "no record": 5,
    "a class of its own": StateArray("x", "<i8", [0], b""),
}


@pytest.mark.parametrize("record", UNFIT.values(), ids=UNFIT)
def test_a_record_that_does_not_fit_is_not_written(record):
    with pytest.raises(SchemaError):
        encode(record)


BATCH = SampleBatch(
    *("b", 1, bytes(24), b"\1\2\1", bytes(3), bytes(24), bytes(12)),
    *(["a", "b"], b"\2\1", b"\1\1", bytes(16), bytes(8), bytes(16), bytes(8), bytes(16)),
)
MODEL = Snapshot(
    *("b", "ubm-linucb", 1, 7, bytes(16), 3, 12, 2, 1.0, 2.0, 3.0, None, 1.0, 1.0, "", "", "t", 0),
    *([StateArray("low", "<i8", [2, 1], bytes(16))], "hash", 5),
)
CROOKED = {
    "no items": (structs.replace(SHOWN, items=b""), "items has 0 bytes"),
    "half an item": (structs.replace(SHOWN, items=bytes(12)), "items has 12 bytes"),
    "contexts not shared by the items": (structs.replace(SHOWN, contexts=bytes(20)), "contexts has 20 bytes"),
    "a propensity too few": (structs.replace(FULL, propensities=bytes(4)), "propensities has 4 bytes, not one float32"),
    "half a candidate": (structs.replace(FULL, candidate_items=bytes(20)), "candidate_items has 20 bytes"),
    "a candidate without its context": (
        structs.replace(FULL, candidate_items=bytes(32)),
        "not the 12 of an item for each of 4",
    ),
    "contexts of no candidates": (structs.replace(FULL, candidate_items=b""), "candidate_contexts has 36 bytes"),
    "a user too few": (replace(BATCH, user_hashes=bytes(8)), "user_hashes has 8 bytes, not the 16"),
    "a row without its propensity": (replace(BATCH, propensities=bytes(8)), "propensities has 8 bytes, not the 12"),
    "a row too few": (replace(BATCH, rewards=bytes(16)), "rewards has 16 bytes, not the 24 of 3 rows in 2 lists"),
    "a list too many": (replace(BATCH, signs=b"\1\1\1"), "signs has 3 bytes"),
    "another dim": (replace(BATCH, dim=2), "contexts has 12 bytes"),
    "a negative dim": (replace(BATCH, dim=-1), "dim must be 0 or more"),
    "sizes of other rows": (replace(BATCH, sizes=b"\2\2"), "sizes sum to 4 rows"),
    "half a number": (replace(MODEL, theta=bytes(4)), "theta has 4 bytes"),
    "a state of objects": (replace(MODEL, state=[StateArray("low", "|O", [2], bytes(16))]), "dtype '|O'"),
    "a state in another shape": (replace(MODEL, state=[StateArray("low", "<i8", [3], bytes(16))]), r"shape \[3\]"),
    "too many axes": (replace(MODEL, state=[StateArray("low", "|u1", [1] * 9, b"1")]), r"shape \[1, 1"),
    "a negative shape": (replace(MODEL, state=[StateArray("low", "<i8", [-2, -1], bytes(16))]), "shape"),
}


@pytest.mark.parametrize("record, reason", CROOKED.values(), ids=CROOKED)
def test_columns_that_do_not_fit_together_are_neither_written_nor_read(record, reason):
    with pytest.raises(SchemaError, match=reason):
        encode(record)
    out = BytesIO(writer_of(SCHEMAS[type(record)]).header)
    out.seek(10)
    schemaless_writer(out, SCHEMAS[type(record)], to_builtins(record, builtin_types=(bytes,)))
    with pytest.raises(SchemaError, match=reason):
        decode(out.getvalue())


def test_numbers_are_passed_on_for_the_stages_to_judge():
    assert math.isnan(decode(encode(structs.replace(CLICK, reward=math.nan))).reward)
    assert decode(encode(structs.replace(CLICK, reward=-math.inf, position=0))).position == 0


def test_confluent_framing_is_a_zero_and_the_registrys_id():
    codec = Codec(confluent={258: SCHEMAS[Click], 1: SCHEMAS[Impression]})
    data = codec.encode(CLICK)
    assert data[:5] == b"\0\0\0\1\2"
    assert data[5:] == encode(CLICK)[10:]
    assert codec.decode(data) == CLICK
    assert codec.decode(codec.encode(SHOWN)) == SHOWN
    assert codec.decode(encode(CLICK)) == CLICK  # a topic may hold both while a shop moves
    for hostile in (data[:5], data[:-1], data + b"\0", b"\0\0\0\1\3" + data[5:]):
        with pytest.raises(SchemaError):
            codec.decode(hostile)
    with pytest.raises(SchemaError, match="got -1"):
        Codec(confluent={-1: SCHEMAS[Click]})


def test_what_has_no_later_field_is_written_as_before():
    assert encode(SHOWN)[:10] == writer_of(PLAIN[Impression]).header
    assert encode(BATCH)[:10] == writer_of(PLAIN[SampleBatch]).header
    for name in ("split_version", "catalogue", "propensities", "candidate_items"):
        only = structs.replace(SHOWN, **{name: getattr(FULL, name)})
        assert encode(only)[:10] == writer_of(SCHEMAS[Impression]).header
        assert decode(encode(only)) == only


def test_a_registry_may_know_only_one_of_the_two_schemas():
    older = Codec(confluent={1: PLAIN[Impression]})
    assert older.decode(older.encode(SHOWN)) == SHOWN
    with pytest.raises(SchemaError, match="no schema to write all of this Impression"):
        older.encode(FULL)
    newer = Codec(confluent={2: SCHEMAS[Impression]})
    both = Codec(confluent={1: PLAIN[Impression], 2: SCHEMAS[Impression]})
    for record in (SHOWN, FULL):
        assert newer.decode(newer.encode(record)) == record
        assert both.decode(both.encode(record)) == record
    assert [both.encode(record)[4] for record in (SHOWN, FULL)] == [1, 2]


FOREIGN_CLICK = {**SCHEMAS[Click], "fields": [*SCHEMAS[Click]["fields"], {"name": "device", "type": "string"}]}
PARTIAL = {
    "impressions only": ({7: SCHEMAS[Impression]}, b"\0\0\0\0\7", encode(CLICK)),
    "a foreign schema, to read": ({9: FOREIGN_CLICK}, encode(SHOWN)[:10], encode(CLICK)),
    "nothing": ({}, encode(SHOWN)[:10], encode(CLICK)),
}


@pytest.mark.parametrize("registry, header, click", PARTIAL.values(), ids=PARTIAL)
def test_records_without_an_id_keep_single_object_framing(registry, header, click):
    codec = Codec(confluent=registry)
    assert codec.encode(CLICK) == click
    for record in (SHOWN, FULL):
        assert codec.encode(record).startswith(header[:2])
        assert codec.decode(codec.encode(record)) == record
    assert codec.encode(SHOWN).startswith(header)


def test_an_older_reader_refuses_what_it_does_not_know_and_names_it():
    older = Codec()
    mark = writer_of(SCHEMAS[Impression]).header
    older._writers = {header: writer for header, writer in older._writers.items() if header != mark}
    assert older.decode(encode(SHOWN)) == SHOWN
    with pytest.raises(SchemaError, match="unknown schema fingerprint"):
        older.decode(encode(FULL))
