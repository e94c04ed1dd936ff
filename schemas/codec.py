"""Avro bytes <-> records, hostile bytes refused.

A payload is a header that names its writer's schema, then one Avro value. The header is that of Avro single-object
encoding (C3 01 and the schema's CRC-64-AVRO fingerprint), or Confluent's (00 and a registry's 4-byte id). Bytes written
with another version of a schema are read into the current class by Avro's resolution rules, once the codec knows that
version. Numbers are passed on as they are: NaN, infinities and positions outside a list are for the stages to judge.
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from operator import index
from typing import Any, TypeVar, cast, overload

from fastavro import schemaless_reader, schemaless_writer

from schemas.known import CANNOT_READ, OLDER, PLAIN, SCHEMAS, Schema, Writer, writer_of
from schemas.records import BucketStamp, Progress, Record, Snapshot, StateArray
from schemas.strict import SchemaError, check, checked

__all__ = ["MAX_BYTES", "Codec", "SchemaError", "decode", "encode"]

MAX_BYTES = 1 << 20
R = TypeVar("R", bound=Record)
_NESTED: Mapping[type, tuple[str, type]] = {Snapshot: ("state", StateArray), Progress: ("stamps", BucketStamp)}


_CURRENT = {cls: writer_of(schema) for cls, schema in SCHEMAS.items()}
_PLAIN = {cls: writer_of(schema) for cls, schema in PLAIN.items()}
_OLDER = [writer_of(schema) for schema in OLDER]
_LATER = {  # fields that are not in the plain schema
    cls: [field["name"] for field in SCHEMAS[cls]["fields"][len(schema["fields"]) :]] for cls, schema in PLAIN.items()
}
_ARRAYS = {
    cls
    for cls, schema in SCHEMAS.items()
    if any(isinstance(field["type"], dict) and field["type"]["type"] == "array" for field in schema["fields"])
}


class Codec:
    """Turns records into bytes and bytes into records.

    Parameters
    ----------
    writers
        Schemas, besides the current ones, whose fingerprints may arrive.
    confluent
        A registry's ids and their schemas. A record whose current or plain schema has an id is written with Confluent
        framing, any other with single-object framing. Both are read.

    Examples
    --------
    >>> from schemas.records import Progress
    >>> codec = Codec(confluent={7: SCHEMAS[Progress]})
    >>> codec.encode(Progress("t", 0, 1, 2, [], 1)).hex()
    '000000000702740002040002'
    """

    def __init__(self, *, writers: Iterable[Schema] = (), confluent: Mapping[int, Schema] | None = None) -> None:
        others = (*_PLAIN.values(), *_OLDER, *(writer_of(schema) for schema in writers))
        self._writers = {writer.header: writer for writer in [*others, *_CURRENT.values()]}
        self._current = {cls: (writer.header, writer) for cls, writer in _CURRENT.items()}
        self._plain = {cls: (writer.header, writer) for cls, writer in _PLAIN.items()}
        numbered = {number: writer_of(schema) for number, schema in (confluent or {}).items()}
        for writer in numbered.values():
            if writer.reader is None or writer == _PLAIN.get(writer.cls):
                self._current.pop(writer.cls, None)
                self._plain.pop(writer.cls, None)
        for number, writer in numbered.items():
            self._know_id(number, writer)

    def _know_id(self, number: int, writer: Writer) -> None:
        if not 0 <= number < 1 << 31:
            raise SchemaError(f"a registry's id must fit a positive int of 32 bits, got {number}")
        header = b"\0" + number.to_bytes(4, "big")
        self._writers[header] = writer
        if writer.reader is None:
            self._current[writer.cls] = header, writer
        elif writer == _PLAIN.get(writer.cls):
            self._plain[writer.cls] = header, writer

    def encode(self, record: Record) -> bytes:
        """Return ``record`` behind its schema's header; whatever it returns, ``decode`` accepts (size apart).

        A record that has none of the fields which came later is written with the plain schema, for older readers.
        """
        cls = type(record)
        known = self._current.get(cls)
        if cls in self._plain and not any(getattr(record, name) for name in _LATER[cls]):
            known = self._plain[cls]
        if known is None:
            names = ", ".join(c.__name__ for c in self._current.keys() | self._plain.keys())
            raise SchemaError(f"no schema to write all of this {cls.__name__} with; the codec has some for: {names}")
        header, writer = known
        out = BytesIO()
        out.write(header)
        try:
            schemaless_writer(out, writer.schema, _row(checked(record), writer.schema["fields"]), strict=True)
            data = out.getvalue()
            if cls in _ARRAYS and (writer.short_cut is None or writer.short_cut(data, len(header)) is None):
                check(writer.expanded, data, len(header))  # an array may have more values than are read
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SchemaError(f"cannot encode {_short(record)}: {error}") from error
        return data

    def column_headers(self, cls: type) -> dict[bytes, bytes]:
        """Return the headers of payloads that ``schemas.event_columns`` reads together, with how these payloads end."""
        return {
            header: bytes(len(_LATER[cls])) if cls in _PLAIN and writer.reader is None else b""
            for header, writer in self._writers.items()
            if writer.cls is cls and writer.short_cut is not None
        }

    @overload
    def decode(self, data: bytes, cls: type[R], *, max_bytes: int = MAX_BYTES) -> R: ...

    @overload
    def decode(self, data: bytes, cls: None = None, *, max_bytes: int = MAX_BYTES) -> Record: ...

    def decode(self, data: bytes, cls: type[Any] | None = None, *, max_bytes: int = MAX_BYTES) -> Any:
        """Return the record in ``data``, which must be a ``cls`` when one is given; raise SchemaError otherwise."""
        if type(data) is not bytes:
            data = _as_bytes(data)
        if len(data) > max_bytes:
            raise SchemaError(f"{len(data)} bytes are more than the limit of {max_bytes}")
        start = 10
        writer = self._writers.get(data[:10])
        if writer is None:
            start = 5
            writer = self._writers.get(data[:5])
            if writer is None:
                raise SchemaError(_unknown(data))
        if cls is not None and cls is not writer.cls:
            raise SchemaError(f"expected {cls.__name__}, got {writer.cls.__name__}; is this the right topic?")
        if writer.short_cut is not None:
            record = writer.short_cut(data, start)
            if record is not None:
                return record
        return _read(writer, data, start)


def _read(writer: Writer, data: bytes, start: int) -> Any:
    name = writer.cls.__name__
    try:
        check(writer.expanded, data, start)
        source = BytesIO(data)
        source.seek(start)
        row = cast(dict[str, Any], schemaless_reader(source, writer.schema, writer.reader))
        if writer.reader is not None:
            written = {field["name"] for field in writer.schema["fields"]}
            row = {name: value for name, value in row.items() if name in written}  # the class has the defaults too
        if writer.cls in _NESTED and _NESTED[writer.cls][0] in row:
            nested, part = _NESTED[writer.cls]
            row[nested] = [part(**fields) for fields in row[nested]]
        return checked(writer.cls(**row))
    except CANNOT_READ as error:
        raise SchemaError(f"not a {name}: {error}") from error


def _row(record: Any, fields: list[Any]) -> dict[str, Any]:
    row = {}
    for field in fields:
        name, kind = field["name"], field["type"]
        row[name] = value = getattr(record, name)
        if kind == "string" or kind == "bytes":
            continue
        if kind == "int" or kind == "long":
            row[name] = number = index(value)  # fastavro 1.13.1 cuts 1.5 down to 1
            if kind == "int" and not -(1 << 31) <= number < 1 << 31:
                raise ValueError(f"{name} is {number}, which needs more than 32 bits")  # fastavro 1.13.1 just writes it
        elif kind == "double" and isinstance(value, str | bytes):
            raise TypeError(f"{name} is text, not a number")  # which fastavro 1.13.1 parses
        elif isinstance(kind, dict) and isinstance(kind["items"], dict):
            row[name] = [_row(part, kind["items"]["fields"]) for part in value]
    return row


def _as_bytes(data: Any) -> bytes:
    if isinstance(data, bytearray | memoryview | bytes):
        return bytes(data)
    raise SchemaError(
        f"expected bytes, got {type(data).__name__}"
        + (" (a tombstone, or a batch that could not be read)" if data is None else "")
    )


def _unknown(data: bytes) -> str:
    if data[:2] == b"\xc3\x01" and len(data) >= 10:
        return (
            f"unknown schema fingerprint {data[2:10][::-1].hex()}: no known version of a record has it; "
            "give the writer's .avsc to the codec"
        )
    if data[:1] == b"\0" and len(data) >= 5:
        return f"unknown registry id {int.from_bytes(data[1:5], 'big')}; give its schema to the codec"
    return f"no Avro header: expected c301 and a fingerprint, got {data[:10].hex() or 'no bytes'}"


def _short(record: object) -> str:
    text = repr(record)
    return text if len(text) <= 200 else text[:200] + "…"


_default = Codec()
encode = _default.encode
decode = _default.decode
