"""What fastavro does that ours guards against; what fails here says that a guard is no longer needed."""

from io import BytesIO

import pytest
from fastavro import schemaless_reader, schemaless_writer

ENUM = {"type": "enum", "name": "e", "symbols": ["a", "b"]}
WRITTEN = {
    "a fraction as a whole number": ("int", 1.5, 1),
    "more than 32 bits as an int": ("int", 1 << 31, 1 << 31),
    "text as a number": ("double", "1.5", 1.5),
    "bytes as a number": ("double", b"1.5", 1.5),
}
READ = {
    "trailing bytes": ("long", b"\x02more", 1),
    "a negative symbol": (ENUM, b"\x01", "b"),
    "a negative branch": (["string", "long"], b"\x01\x02", 1),
    "a million items of no bytes": ({"type": "array", "items": "null"}, b"\x80\x89\x7a\0", [None] * 1_000_000),
    "an int of more than 32 bits": ("int", b"\x80\x80\x80\x80\x80\x01", 1 << 34),
}


@pytest.mark.parametrize("kind, value, written", WRITTEN.values(), ids=WRITTEN)
def test_fastavro_still_writes(kind, value, written):
    schema, out = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}, BytesIO()
    schemaless_writer(out, schema, {"a": value}, strict=True)
    assert schemaless_reader(BytesIO(out.getvalue()), schema) == {"a": written}


@pytest.mark.parametrize("kind, data, read", READ.values(), ids=READ)
def test_fastavro_still_reads(kind, data, read):
    assert schemaless_reader(BytesIO(data), kind) == read
