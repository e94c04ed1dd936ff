"""The walk over untrusted bytes: exactly one plain Avro value of a schema, or a SchemaError.

fastavro 1.13.1 trusts its input: it makes as many empty items as a few bytes claim, follows negative indices, takes
ints of more than 32 bits and ignores trailing bytes.
Here every length is held against the bytes that are left and every value against a budget before fastavro sees them,
so decoding never takes more memory than a small multiple of the input. ``checked`` then compares the lengths of the
packed columns of a record.
"""

import math
import re
from reprlib import repr as _short  # what is wrong may be a megabyte long
from typing import Any, TypeVar

from schemas.records import Impression, SampleBatch, Snapshot, StateArray

R = TypeVar("R")
MAX_VALUES = 1 << 16  # in one record; the longest sample batch has about 15,000
_SCALARS = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_PER_ROW = {"items": 8, "last_clicks": 1, "rewards": 8}
_PER_LIST = {
    **{"sizes": 1, "signs": 1, "shown_at_ms": 8, "source_partitions": 4},
    **{"source_offsets": 8, "ranked_by_epochs": 4, "ranked_by_offsets": 8},
}
MAX_AXES = 8
_DTYPE = re.compile(r"\|[biu]1|<[iuf][248]")


class SchemaError(ValueError):
    """Bytes, a record or a schema that do not fit what is known."""


def smallest(schema: Any) -> int:
    """Return the least bytes a value of an expanded schema takes, refusing a schema that no limit could guard.

    >>> smallest({"type": "array", "items": "long"})
    1
    """
    if isinstance(schema, list):
        return 1 + min(smallest(branch) for branch in schema)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return sum(smallest(field["type"]) for field in schema["fields"])
    if kind in ("array", "map"):
        if smallest(schema["items" if kind == "array" else "values"]) == 0:
            raise SchemaError(f"an {kind} of items that take no bytes has no limit: {schema}")
        return 1
    if kind == "enum":
        return 1
    if kind == "fixed":
        return int(schema["size"])
    if kind == "null":
        return 0
    if kind not in _SCALARS:
        raise SchemaError(f"the schema refers to {kind!r} inside itself, or it is no Avro type; recursion is refused")
    return _SCALARS[kind]


def check(schema: Any, data: bytes, start: int = 0) -> None:
    """Refuse ``data`` unless, from ``start`` to its end, it is one value of an expanded ``schema``."""
    walk = Walk(data, start)
    try:
        walk.value(schema)
    except IndexError:
        raise SchemaError(f"the bytes end in the middle of a value, after {len(data)}") from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"a string before byte {walk.at} is not UTF-8: {error}") from error
    if walk.at != len(data):
        raise SchemaError(f"{len(data) - walk.at} trailing bytes after a value that ends at byte {walk.at}")


class Walk:
    """A place in the bytes, and how many more values may follow."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.left = MAX_VALUES

    def value(self, schema: Any) -> None:
        """Step over one value."""
        self.left -= 1
        if self.left < 0:
            raise SchemaError(f"more than {MAX_VALUES} values in one record")
        if isinstance(schema, list):
            self.value(schema[self.index(len(schema), "union branch")])
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            for field in schema["fields"]:
                self.value(field["type"])
        elif kind == "array":
            self.blocks([schema["items"]])
        elif kind == "map":
            self.blocks(["string", schema["values"]])
        elif kind != "null":
            self.scalar(kind, schema)

    def scalar(self, kind: str, schema: Any) -> None:
        """Step over one value that holds no others."""
        if kind == "string":
            self.content().decode()
        elif kind == "bytes":
            self.skip(self.varint())
        elif kind == "long":
            self.varint()
        elif kind == "int":
            self.varint32()
        elif kind == "boolean":
            self.skip(1)
            if self.data[self.at - 1] > 1:
                raise SchemaError(f"a boolean must be 0 or 1, got {self.data[self.at - 1]}")
        elif kind == "enum":
            self.index(len(schema["symbols"]), "enum symbol")
        else:
            self.skip(schema["size"] if kind == "fixed" else _SCALARS[kind])

    def skip(self, size: int) -> int:
        """Step over ``size`` bytes, and return where they start."""
        start = self.at
        if not 0 <= size <= len(self.data) - start:
            raise SchemaError(f"a length of {size} where {len(self.data) - start} bytes are left, at byte {start}")
        self.at += size
        return start

    def content(self) -> bytes:
        """Step over bytes or text, and return what is in it."""
        start = self.skip(self.varint())
        return self.data[start : self.at]

    def index(self, count: int, name: str) -> int:
        """Step over the number of one of ``count`` alternatives."""
        chosen = self.varint()
        if not 0 <= chosen < count:
            raise SchemaError(f"{name} {chosen} of {count}, before byte {self.at}")
        return chosen

    def blocks(self, item: list[Any]) -> None:
        """Step over counted blocks up to the empty one; a negative count also states the block's bytes."""
        while count := self.varint():
            end = None
            if count < 0:
                count = -count
                size = self.varint()
                end = self.skip(size) + size
                self.at -= size
            if count > len(self.data) - self.at:  # every item takes a byte at least
                raise SchemaError(f"a block of {count} items where {len(self.data) - self.at} bytes are left")
            for _ in range(count):
                for part in item:
                    self.value(part)
            if end is not None and self.at != end:
                raise SchemaError(f"a block said to end at byte {end} ends at {self.at}")

    def varint32(self) -> int:
        """Step over a varint of at most 32 bits."""
        number = self.varint()
        if not -(1 << 31) <= number < 1 << 31:
            raise SchemaError(f"an int before byte {self.at} is {number}, which needs more than 32 bits")
        return number

    def varint(self) -> int:
        """Step over a zigzag varint, the shortest that writes its number."""
        shift = number = 0
        while (byte := self.data[self.at]) > 127:
            number |= (byte & 127) << shift
            shift += 7
            self.at += 1
            if shift > 63:
                raise SchemaError(f"a number of more than 64 bits, at byte {self.at}")
        self.at += 1
        number |= byte << shift
        if number >> 64 or (shift and not byte):
            raise SchemaError(f"a number written longer than it needs or than 64 bits, before byte {self.at}")
        return (number >> 1) ^ -(number & 1)


def checked(record: R) -> R:
    """Return ``record`` if its columns fit together, else raise a SchemaError that names the first that does not.

    ``encode`` and ``decode`` call this, so the ``*_array`` properties of a record from the wire never fail. It looks at
    lengths only: NaN contexts, positions outside the list or unknown buckets are for the stages to judge.

    >>> checked(Impression("i", "s", "b", "u", 0, items=bytes(16), contexts=bytes(12), rendered=2))
    Traceback (most recent call last):
        ...
    schemas.strict.SchemaError: contexts has 12 bytes, not a whole number of float32 for each of 2 items
    """
    if isinstance(record, Impression):
        _check_impression(record)
    elif isinstance(record, SampleBatch):
        _check_samples(record)
    elif isinstance(record, Snapshot):
        if len(record.theta) % 8:
            raise SchemaError(f"theta has {len(record.theta)} bytes, not a whole number of float64")
        for part in record.state:
            _check_state(part)
    return record


def _check_impression(record: Impression) -> None:
    if not record.items or len(record.items) % 8:
        raise SchemaError(f"items has {len(record.items)} bytes, not one or more int64")
    if len(record.contexts) % (4 * record.size):
        raise SchemaError(
            f"contexts has {len(record.contexts)} bytes, not a whole number of float32 for each of {record.size} items"
        )
    if record.propensities and len(record.propensities) != 4 * record.size:
        raise SchemaError(
            f"propensities has {len(record.propensities)} bytes, not one float32 for each of {record.size} items"
        )
    if len(record.candidate_items) % 8:
        raise SchemaError(f"candidate_items has {len(record.candidate_items)} bytes, not a whole number of int64")
    row = len(record.contexts) // record.size
    if record.candidate_contexts and len(record.candidate_contexts) != row * (len(record.candidate_items) // 8):
        raise SchemaError(
            f"candidate_contexts has {len(record.candidate_contexts)} bytes, not the {row} of an item for each of "
            f"{len(record.candidate_items) // 8} candidates"
        )


def _check_samples(record: SampleBatch) -> None:
    rows, lists = len(record.positions), len(record.impression_ids)
    if record.dim < 0:
        raise SchemaError(f"dim must be 0 or more, got {record.dim}")
    wanted = {name: width * rows for name, width in _PER_ROW.items()}
    wanted |= {name: width * lists for name, width in _PER_LIST.items()}
    wanted["contexts"] = 4 * record.dim * rows
    wanted["user_hashes"] = 8 * lists if record.user_hashes else 0
    wanted["propensities"] = 4 * rows if record.propensities else 0
    for name, size in wanted.items():
        held_bytes = len(getattr(record, name))
        if held_bytes != size:
            raise SchemaError(f"{name} has {held_bytes} bytes, not the {size} of {rows} rows in {lists} lists")
    if sum(record.sizes) != rows:
        raise SchemaError(f"sizes sum to {sum(record.sizes)} rows, but positions has {rows}")


def _check_state(part: StateArray) -> None:
    if not _DTYPE.fullmatch(part.dtype):
        raise SchemaError(f"a state has dtype {_short(part.dtype)}, wanted little-endian numbers such as '<i8'")
    plain = len(part.shape) <= MAX_AXES and all(length >= 0 for length in part.shape)
    if not plain or math.prod(part.shape) * int(part.dtype[2:]) != len(part.data):
        raise SchemaError(
            f"state {_short(part.name)} has {len(part.data)} bytes, not the shape {_short(part.shape)} of {part.dtype}"
        )
