"""The walk over untrusted bytes: exactly one plain Avro value of a schema, or a SchemaError.

fastavro trusts its input: it allocates what a length prefix claims, follows negative indices, ignores trailing bytes.
Here every length is held against the bytes that are left and every value against a budget before fastavro sees them,
so decoding never takes more memory than a small multiple of the input.
"""

from __future__ import annotations

from typing import Any

MAX_VALUES = 1 << 16  # in one record; the longest sample batch has about 15,000
_SCALARS = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


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
