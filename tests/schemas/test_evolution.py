"""Old bytes meet new classes and new bytes old ones, once the codec knows the writer's schema."""

import json
from dataclasses import asdict
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from schemas.codec import Codec, SchemaError, decode
from schemas.known import PLAIN, SCHEMAS, load_writers, writer_of
from schemas.records import Click, Impression, SampleBatch, Snapshot, StateArray

CLICK = Click("i1", "s1", 3, 1_731_700_000_000, 0.5)
MODEL = Snapshot(
    *("b", "ubm-linucb", 1, 7, bytes(16), 3, 12, 2, 1.0, 2.0, 3.0, 0.25, 1.0, 1.0, "", "", "t", 0),
    *([StateArray("low", "<i8", [2], bytes(16)), StateArray("high", "<i8", [], bytes(8))], "hash", 5),
)


def changed(cls, *, drop=(), add=()):
    schema = json.loads(json.dumps(SCHEMAS[cls]))
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in drop] + list(add)
    return schema


def written(schema, row):
    out = BytesIO()
    out.write(writer_of(schema).header)
    schemaless_writer(out, parse_schema(schema), row)
    return out.getvalue()


OLD = changed(Click, drop=["reward"])
DEVICE = {"name": "device", "type": ["null", {"type": "map", "values": "string"}], "default": None}
KIND = {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["TAP", "HOLD"]}, "default": "TAP"}
NEWER = changed(Click, add=[DEVICE, KIND])
BOTH = Codec(writers=[OLD, NEWER])


def test_a_field_that_an_old_writer_did_not_have_takes_its_default():
    data = written(OLD, structs.asdict(CLICK))
    assert Codec(writers=[OLD]).decode(data, Click) == structs.replace(CLICK, reward=1.0)


def test_a_field_that_only_a_new_writer_has_is_left_aside():
    data = written(NEWER, structs.asdict(CLICK) | {"device": {"os": "x"}, "kind": "HOLD"})
    assert Codec(writers=[NEWER]).decode(data, Click) == CLICK


def test_a_record_inside_a_record_is_resolved_too():
    schema = changed(Snapshot, drop=["chunks"])
    [state] = [field for field in schema["fields"] if field["name"] == "state"]
    state["type"]["items"]["fields"].insert(0, {"name": "unit", "type": "string"})
    row = asdict(MODEL)
    for part in row["state"]:
        part["unit"] = "grid"
    assert Codec(writers=[schema]).decode(written(schema, row)) == MODEL


def test_a_codec_that_does_not_know_the_writer_names_its_fingerprint():
    data = written(OLD, structs.asdict(CLICK))
    mark = writer_of(OLD).fingerprint[::-1].hex()
    with pytest.raises(SchemaError, match=f"unknown schema fingerprint {mark}"):
        decode(data)


def test_a_codec_with_older_writers_still_writes_the_current_schema():
    codec = Codec(writers=[OLD, NEWER, SCHEMAS[Click]])
    assert decode(codec.encode(CLICK)) == CLICK
    registry = Codec(confluent={1: OLD, 2: SCHEMAS[Click]})
    assert registry.encode(CLICK)[:5] == b"\0\0\0\0\2"
    assert registry.decode(b"\0\0\0\0\1" + written(OLD, structs.asdict(CLICK))[10:]) == structs.replace(
        CLICK, reward=1.0
    )


CANNOT = {
    "a field without default is missing": (changed(Click, drop=["position"]), "position"),
    "a type that cannot become ours": (
        changed(Click, drop=["position"], add=[{"name": "position", "type": "string"}]),
        "cannot be read as the current",
    ),
}


@pytest.mark.parametrize("schema, reason", CANNOT.values(), ids=CANNOT)
def test_a_writer_that_cannot_be_resolved_is_refused_when_it_is_given(schema, reason):
    with pytest.raises(SchemaError, match=reason):
        Codec(writers=[schema])


def test_a_logical_type_changes_no_number():
    field = {"name": "clicked_at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    other = changed(Click, drop=["clicked_at_ms", "reward"], add=[field])
    data = written(other, structs.asdict(CLICK))
    assert Codec(writers=[other]).decode(data, Click).clicked_at_ms == CLICK.clicked_at_ms


def test_writers_come_from_a_folder(tmp_path):
    (tmp_path / "click-1.avsc").write_text(json.dumps(OLD))
    (tmp_path / "click-3.avsc").write_text(json.dumps(NEWER))
    assert load_writers(tmp_path) == [OLD, NEWER]
    (tmp_path / "click-2.avsc").write_text("{")
    with pytest.raises(SchemaError, match=r"click-2.avsc is not JSON"):
        load_writers(tmp_path)


@given(data=st.data())
def test_spoiled_bytes_of_another_version_raise_only_schema_errors(data):
    schema, row = data.draw(st.sampled_from([(OLD, {}), (NEWER, {"device": {"os": "x"}, "kind": "HOLD"})]))
    good = written(schema, structs.asdict(CLICK) | row)
    at = data.draw(st.integers(10, len(good) - 1))
    spoiled = good[:at] + data.draw(st.binary(max_size=8)) + good[at + data.draw(st.integers(0, 8)) :]
    try:
        found = BOTH.decode(spoiled)
    except SchemaError:
        return
    assert type(found) is Click


SHOWN = Impression("i", "s", "b", "u", 1_731_700_000_000, bytes(16), bytes(8), 2, 1, 7)
BATCH = SampleBatch(
    *("b", 1, bytes(8), b"\1", b"\0", bytes(8), bytes(4), ["i"], b"\1", b"\1", bytes(8)),
    *(bytes(4), bytes(8), bytes(4), bytes(8)),
)


@pytest.mark.parametrize("record", [SHOWN, BATCH], ids=["impression", "samples"])
def test_the_short_form_is_read_without_being_told(record):
    schema = PLAIN[type(record)]
    row = {field["name"]: getattr(record, field["name"]) for field in schema["fields"]}
    assert decode(written(schema, row)) == record
