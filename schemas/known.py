"""What a codec must know of each Avro schema: its fingerprint, its class, and how its bytes are read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

from fastavro import parse_schema, schemaless_reader
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, expand_schema, fingerprint, load_schema, to_parsing_canonical_form

from schemas.fast import read_click, read_full_impression, read_impression, read_samples
from schemas.records import Click, Impression, Record, SampleBatch
from schemas.strict import SchemaError, smallest

Schema = Any  # JSON, as fastavro takes it
_CLASSES: Mapping[Any, type] = {f"glimpse.{cls.__name__}": cls for cls in get_args(Record)}
_FILES: list[Schema] = [load_schema(str(path)) for path in Path(__file__).parent.glob("*.avsc")]
SCHEMAS: Mapping[type, Schema] = {
    cls: next(schema for schema in _FILES if schema["name"] == name) for name, cls in _CLASSES.items()
}
# The short forms, written for records that use none of the optional fields at the end, whose default is "".
PLAIN: Mapping[type, Schema] = {
    cls: {**SCHEMAS[cls], "fields": [field for field in SCHEMAS[cls]["fields"] if field.get("default") != ""]}
    for cls in (Impression, SampleBatch)
}
_SHORT_CUTS: Mapping[str, Callable[[bytes, int], Any]] = {
    to_parsing_canonical_form(PLAIN[Impression]): read_impression,
    to_parsing_canonical_form(SCHEMAS[Impression]): read_full_impression,
    to_parsing_canonical_form(SCHEMAS[Click]): read_click,
    to_parsing_canonical_form(PLAIN[SampleBatch]): partial(read_samples, full=False),
    to_parsing_canonical_form(SCHEMAS[SampleBatch]): partial(read_samples, full=True),
}
CANNOT_READ = (SchemaResolutionError, ValueError, TypeError, LookupError, ArithmeticError, EOFError)


@dataclass(frozen=True, slots=True)
class Writer:
    """One schema that bytes may have been written with, and the way from them to the current class."""

    cls: type
    fingerprint: bytes  # CRC-64-AVRO of the parsing canonical form, little-endian
    schema: Schema  # parsed, without anything that would turn numbers into other types
    expanded: Schema  # the same with names spelled out, for the strict walk
    reader: Schema | None  # the current schema, where the writer's is another
    short_cut: Callable[[bytes, int], Any] | None

    @property
    def header(self) -> bytes:
        """What stands before a single object: a marker and the fingerprint."""
        return b"\xc3\x01" + self.fingerprint


def writer_of(schema: Schema) -> Writer:
    """Return what a codec must know of ``schema``, or refuse one that this version could not read safely.

    >>> writer_of(SCHEMAS[Click]).header.hex()
    'c3014c9fe767b4a5c5ad'
    """
    try:
        canonical = to_parsing_canonical_form(schema)
        parsed = parse_schema(json.loads(canonical))
        expanded = expand_schema(parsed)
    except (SchemaParseException, ValueError, TypeError, LookupError) as error:
        raise SchemaError(f"not an Avro schema: {error}: {schema}") from error
    name = parsed.get("name") if isinstance(parsed, dict) else str(parsed)
    cls = _CLASSES.get(name)
    if cls is None:
        raise SchemaError(f"{name!r} is none of our records: {', '.join(_CLASSES)}")
    least = smallest(expanded)
    reader = None if canonical == to_parsing_canonical_form(SCHEMAS[cls]) else SCHEMAS[cls]
    try:
        schemaless_reader(BytesIO(bytes(least)), parsed, reader)  # zeros are the smallest value of any schema
    except CANNOT_READ as error:
        raise SchemaError(f"records of this {name} cannot be read as the current one: {error}") from error
    mark = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
    return Writer(cls, mark, parsed, expanded, reader, _SHORT_CUTS.get(canonical))


def load_writers(folder: Path) -> list[Schema]:
    """Return every schema (``*.avsc``) of a folder, by name: the older and newer ones that are still in the topics."""
    writers = []
    for path in sorted(folder.glob("*.avsc")):
        try:
            writers.append(json.loads(path.read_text("utf-8")))
        except ValueError as error:
            raise SchemaError(f"{path.name} is not JSON: {error}") from error
    return writers


OLDER = load_writers(Path(__file__).with_name("older"))  # former versions of these files that topics hold
