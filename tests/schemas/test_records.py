"""The dataclasses mirror the .avsc files, and their columns come out as arrays."""

import types
import typing
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields

import numpy as np
import pytest
from msgspec import NODEFAULT, structs

from schemas.known import SCHEMAS
from schemas.records import BucketStamp, Click, Impression, SampleBatch, Snapshot, StateArray

PYTHON = {
    "boolean": bool,
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "bytes": bytes,
    "null": types.NoneType,
}


def python_type(avro):
    if isinstance(avro, list):
        return typing.Union[tuple(python_type(branch) for branch in avro)]  # noqa: UP007
    if isinstance(avro, str):
        return PYTHON[avro]
    if avro["type"] == "array":
        return list[python_type(avro["items"])]
    if avro["type"] == "record":
        return {"glimpse.StateArray": StateArray, "glimpse.BucketStamp": BucketStamp}[avro["name"]]
    return PYTHON[avro["type"]]


def state_array_schema():
    [field] = [field for field in SCHEMAS[Snapshot]["fields"] if field["name"] == "state"]
    return field["type"]["items"]


@pytest.mark.parametrize(
    "cls, schema",
    [*SCHEMAS.items(), (StateArray, state_array_schema())],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_class_mirrors_its_schema(cls, schema):
    hints = typing.get_type_hints(cls)
    fields, missing = (dataclass_fields(cls), MISSING) if is_dataclass(cls) else (structs.fields(cls), NODEFAULT)
    made = [None if f.default_factory is missing else f.default_factory() for f in fields]
    defaults = [value if f.default is missing else f.default for f, value in zip(fields, made, strict=True)]
    ours = [(f.name, hints[f.name], default) for f, default in zip(fields, defaults, strict=True)]
    theirs = [(f["name"], python_type(f["type"]), f.get("default")) for f in schema["fields"]]
    theirs = [(name, kind, b"" if kind is bytes and default == "" else default) for name, kind, default in theirs]
    assert ours == theirs
    assert schema["name"] == f"glimpse.{cls.__name__}"
    assert all(field["doc"] for field in schema["fields"])


PACKED = {"packed-int64": "<i8", "packed-int32": "<i4", "packed-uint8": "|u1", "packed-int8": "|i1"} | {
    "packed-float32": "<f4",
    "packed-float64": "<f8",
    "packed-uint64": "<u8",
}


@pytest.mark.parametrize("cls", [Impression, SampleBatch], ids=lambda cls: cls.__name__)
def test_a_packed_column_comes_out_as_its_logical_type(cls):
    numbers = bytes(range(16))  # one int64 or float64 for each of two rows or lists, cut to what the type needs
    columns = {
        field["name"]: PACKED[field["type"]["logicalType"]]
        for field in cls_fields(cls)
        if isinstance(field["type"], dict)
    }
    columns.pop("impression_ids", None)
    rest = {"impression_ids": ["a", "b"], "dim": 1, "bucket": "b"} if cls is SampleBatch else plain_impression()
    record = cls(**rest, **{name: numbers[: 2 * np.dtype(kind).itemsize] for name, kind in columns.items()})
    for name, kind in columns.items():
        array = getattr(record, f"{name}_array")
        assert array.dtype.str == kind
        assert array.tobytes() == getattr(record, name)
        assert not array.flags.writeable
        assert array.shape == ((2, 1) if name.endswith("contexts") else (2,))


def cls_fields(cls):
    return [f for f in SCHEMAS[cls]["fields"] if not isinstance(f["type"], dict) or "logicalType" in f["type"]]


def plain_impression():
    return {"impression_id": "i", "session_id": "s", "bucket": "b", "user_id": "u", "shown_at_ms": 1, "rendered": 2}


def test_an_impression_knows_its_size():
    contexts = np.arange(6, dtype="<f4").reshape(2, 3)
    shown = Impression(**plain_impression(), items=np.array([7, -8], "<i8").tobytes(), contexts=contexts.tobytes())
    assert shown.size == 2
    assert shown.items_array.tolist() == [7, -8]
    np.testing.assert_array_equal(shown.contexts_array, contexts)


def test_state_travels_in_its_shape_whatever_the_byte_order():
    arrays = {"limbs": np.arange(12, dtype=">i8").reshape(2, 2, 3), "rounds": np.array(5), "none": np.empty((0, 4))}
    for name, array in arrays.items():
        part = StateArray.of(name, array)
        assert part.dtype[0] in "<|"
        np.testing.assert_array_equal(part.array, array)
        assert part.array.shape == array.shape
    column = np.arange(6).reshape(2, 3)[:, 1]  # not contiguous
    assert StateArray.of("column", column).array.tolist() == [1, 4]


def test_a_record_cannot_be_changed():
    click = Click("i", "s", 1, 0)
    with pytest.raises(AttributeError, match="immutable"):
        click.position = 2
    with pytest.raises(AttributeError):
        _ = click.__dict__
