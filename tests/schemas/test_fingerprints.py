"""A schema's fingerprint is the one that every Avro implementation computes."""

import json

import pytest

from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import (
    Candidate,
    Click,
    DeadLetter,
    Impression,
    JoinStart,
    Progress,
    Rollout,
    Rules,
    SampleBatch,
    Snapshot,
)
from schemas.strict import SchemaError

# as Apache Avro's own tests have them
PUBLISHED = {
    '"null"': 0x63DD24E7CC258F8A,
    '"boolean"': 0x9F42FC78A4D4F764,
    '"int"': 0x7275D51A3F395C8F,
    '"long"': 0xD054E14493F41DB7,
    '"float"': 0x4D7C02CB3EA8D790,
    '"double"': 0x8E7535C032AB957E,
    '"bytes"': 0x4FC016DAC3201965,
    '"string"': 0x8F014872634503C7,
    "": 0xC15D213AA4D7A795,
}
# a change here is a change on the wire: keep the old .avsc in schemas/older
OURS = {
    Impression: 0x5DF0FAD09FE6AE09,
    Click: 0xADC5A5B467E79F4C,
    SampleBatch: 0x3C307FE872C6979,
    Snapshot: 0xFCA16DC7DE59D8AB,
    Progress: 0x5055EBAA1BDD1B8,
    JoinStart: 0x1DB760A275A01A28,
    DeadLetter: 0x95936E33A112C389,
    Rules: 0x163AFE3B751B4186,
    Rollout: 0x3310DDC57F22CDEE,
    Candidate: 0x71E0AB523D7753F5,
}


PLAINLY = {Impression: 0xD80C729E562C6049, SampleBatch: 0xFD72B23E82537382}  # as long as no later field is used


def crc64(text):
    """The specification's algorithm, bit by bit."""
    empty = result = 0xC15D213AA4D7A795
    for byte in text.encode():
        result ^= byte
        for _ in range(8):
            result = (result >> 1) ^ (empty if result & 1 else 0)
    return result


def canonical(schema):
    """The specification's parsing canonical form, for the types that our schemas use."""
    if isinstance(schema, list):
        return "[" + ",".join(map(canonical, schema)) + "]"
    if isinstance(schema, str):
        return f'"{schema}"'
    if schema["type"] == "array":
        return '{"type":"array","items":' + canonical(schema["items"]) + "}"
    if schema["type"] == "record":
        fields = [f'{{"name":"{f["name"]}","type":{canonical(f["type"])}}}' for f in schema["fields"]]
        name = schema["name"] if "." in schema["name"] else f"glimpse.{schema['name']}"
        return f'{{"name":"{name}","type":"record","fields":[{",".join(fields)}]}}'
    return canonical(schema["type"])


@pytest.mark.parametrize("text", PUBLISHED)
def test_the_reference_below_gives_the_published_values(text):
    assert crc64(text) == PUBLISHED[text]


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_fingerprints_follow_the_specification_and_stay(cls):
    found = int.from_bytes(writer_of(SCHEMAS[cls]).fingerprint, "little")
    assert found == crc64(canonical(SCHEMAS[cls]))
    assert f"{found:#x}" == f"{OURS[cls]:#x}"


@pytest.mark.parametrize("cls", PLAINLY, ids=lambda cls: cls.__name__)
def test_the_plain_schemas_stay_and_are_the_beginning_of_the_whole_ones(cls):
    found = int.from_bytes(writer_of(PLAIN[cls]).fingerprint, "little")
    assert f"{found:#x}" == f"{PLAINLY[cls]:#x}"
    fields = SCHEMAS[cls]["fields"]
    assert fields[: len(PLAIN[cls]["fields"])] == PLAIN[cls]["fields"], "what came later stands at the end"
    assert all(field["default"] == "" for field in fields[len(PLAIN[cls]["fields"]) :])


def test_what_readers_need_not_agree_on_is_not_in_the_fingerprint():
    click = json.loads(json.dumps(SCHEMAS[Click]))
    del click["doc"]
    for field in click["fields"]:
        field["doc"] = "other words"
        field.pop("default", None)
    assert writer_of(click).fingerprint == writer_of(SCHEMAS[Click]).fingerprint


def record(*fields, name="Click"):
    return {"type": "record", "name": name, "namespace": "glimpse", "fields": list(fields)}


UNSAFE = {
    "recursion": (record({"name": "next", "type": ["null", "Click"]}), "recursion is refused"),
    "items without bytes": (record({"name": "x", "type": {"type": "array", "items": "null"}}), "take no bytes"),
    "values without bytes": (
        record({"name": "x", "type": {"type": "array", "items": record(name="Nothing")}}),
        "take no bytes",
    ),
    "another record": (record(name="Purchase"), "'glimpse.Purchase' is none of our records: glimpse.Impression"),
    "no record": ("string", "'string' is none of our records"),
    "a union": (["null", "string"], "is none of our records"),
    "no schema": ({"type": "parchment"}, "not an Avro schema"),
    "no JSON": (None, "not an Avro schema"),
}


@pytest.mark.parametrize("schema, reason", UNSAFE.values(), ids=UNSAFE)
def test_a_schema_that_could_not_be_read_safely_is_refused(schema, reason):
    with pytest.raises(SchemaError, match=reason):
        writer_of(schema)
