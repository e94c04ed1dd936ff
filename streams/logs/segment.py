"""A segment: log blocks in one Avro container file; a torn last block is cut, a damaged one elsewhere refused."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fastavro import writer as write_container
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form

from schemas.json_text import parse_json
from schemas.strict import SchemaError, Walk
from streams.logs.block import SCHEMA, LogBlock, zigzag

log = logging.getLogger(__name__)

MAX_BLOCK_BYTES = 64 << 20  # expanded; more is refused before it takes memory
CODECS = ("zstandard", "deflate", "null")
ZSTANDARD = ("compression.zstd", "backports.zstd")  # of Python 3.14, and for those before it: fastavro uses the same
_HEADER_BYTES = 1 << 16
_SYNC_BYTES = 16
_HEAD_BYTES = 20  # two numbers
_CANONICAL = to_parsing_canonical_form(SCHEMA)


class ArchiveError(ValueError):
    """A directory or file that is no archive, or not the one that was asked for."""


class ArchiveCorrupt(ArchiveError):
    """Damage in the middle of an archive's file: the file, the byte, and the offsets before it that are good."""


class CodecError(ValueError):
    """A codec that is unknown or not installed, or bytes that it cannot expand."""


class Compression(NamedTuple):
    """The two ways of one codec."""

    press: Callable[[bytes], bytes]
    expand: Callable[[bytes], bytes]


class Header(NamedTuple):
    """What a container file says about itself before its first block."""

    metadata: Mapping[str, str]
    sync: bytes
    end: int  # bytes


class Segment:
    """One container file of a partition."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.header = _header(path, file.read(_HEADER_BYTES))
        try:
            self._codec = codec_named(self.header.metadata.get("avro.codec", "null"))
        except CodecError as error:
            raise ArchiveError(f"{path}: {error}") from error

    @classmethod
    def create(cls, path: Path, metadata: Mapping[str, str], *, codec: str) -> Segment:
        """Make an empty segment, whole or not at all."""
        codec_named(codec)
        header = BytesIO()
        write_container(header, SCHEMA, [], codec=codec, metadata=dict(metadata))
        replace_file(path, header.getvalue(), sync=False)
        return cls(path)

    def pack(self, block: LogBlock) -> bytes:
        """Return the bytes that append ``block``."""
        data = block.encode()
        if len(data) > MAX_BLOCK_BYTES:
            raise ArchiveError(f"a block of {len(data)} bytes is above the limit of {MAX_BLOCK_BYTES}")
        pressed = self._codec.press(data)
        return b"".join((zigzag(1), zigzag(len(pressed)), pressed, self.header.sync))

    def blocks(self, start: int | None = None, *, last: bool = True) -> Iterator[tuple[LogBlock, int]]:
        """Yield the blocks from byte ``start`` on, each with the byte where it ends.

        A torn block ends the ``last`` segment of a partition; anything else that cannot be read is ArchiveCorrupt.
        """
        at = self.header.end if start is None else start
        good = "none"
        with self.path.open("rb") as file:
            while True:
                try:
                    block_and_end = self._next(file, at)
                except (SchemaError, CodecError) as error:
                    self._judge(file, at, error, f"; the last good offset before it: {good}", last=last)
                    return
                if block_and_end is None:
                    return
                block, at = block_and_end
                good = str(block.next_offset - 1)
                yield block, at

    def end(self) -> tuple[int, int]:
        """Return the offset after its last block, else its first, and the byte where that ends, by one look at each.

        Only the last block is expanded; what is inside the others is for those who read them.
        """
        starts, at = [], self.header.end
        with self.path.open("rb") as file:
            while head := _at(file, at, _HEAD_BYTES):
                try:
                    after = at + sum(_frame(head)) + _SYNC_BYTES
                    if _at(file, after - _SYNC_BYTES, _SYNC_BYTES) != self.header.sync:
                        raise SchemaError("a block does not end with the file's sync marker")
                except SchemaError as error:
                    self._judge(file, at, error)
                    break
                starts.append(at)
                at = after
        for start in reversed(starts):
            for block, after in self.blocks(start):  # one; none if it is the last and torn
                return block.next_offset, after
        return int(self.path.stem), self.header.end

    def _judge(self, file: BinaryIO, at: int, error: Exception, more: str = "", *, last: bool = True) -> None:
        """Say that the block at ``at`` is a torn end, or raise ArchiveCorrupt when it is damage in the middle."""
        if not last or self._followed(file, at):
            raise ArchiveCorrupt(f"{self.path}: damaged at byte {at}: {error}{more}") from error
        log.warning("%s: the last block, from byte %d, is torn and left out: %s", self.path, at, error)

    def _next(self, file: BinaryIO, at: int) -> tuple[LogBlock, int] | None:
        head = _at(file, at, _HEAD_BYTES)
        if not head:
            return None
        start, size = _frame(head)
        data = _at(file, at + start, size + _SYNC_BYTES)
        if len(data) < size + _SYNC_BYTES:
            raise SchemaError(f"{len(data)} of the {size + _SYNC_BYTES} bytes of a block")
        if data[size:] != self.header.sync:
            raise SchemaError("a block does not end with the file's sync marker")
        return LogBlock.decode(self._codec.expand(data[:size])), at + start + size + _SYNC_BYTES

    def _followed(self, file: BinaryIO, at: int) -> bool:
        """Return whether a whole block follows the one at ``at``, so that this is damage and no torn end."""
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            size, sync_at = len(data), data.find(self.header.sync, at)
        try:
            claimed = at + sum(_frame(_at(file, at, _HEAD_BYTES))) + _SYNC_BYTES
        except SchemaError:
            claimed = size
        return sync_at >= 0 and min(sync_at + _SYNC_BYTES, claimed) < size


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file as a whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    beside.replace(path)


def _at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _frame(head: bytes) -> tuple[int, int]:
    """Return where a block's data starts after its head, and how many bytes it has."""
    walk = Walk(head, 0)
    try:
        count, size = walk.varint(), walk.varint()
    except IndexError:
        raise SchemaError("the file ends in the head of a block") from None
    if count != 1 or not 0 < size <= MAX_BLOCK_BYTES:
        raise SchemaError(f"a block of {count} records in {size} bytes; wanted 1 in at most {MAX_BLOCK_BYTES}")
    return walk.at, size


def _canonical(schema: Any) -> str | None:
    """Return a schema's canonical form; None for what is no schema, which fastavro tells in many ways."""
    try:
        form: str = to_parsing_canonical_form(schema)
    except (SchemaParseException, UnknownType, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return form


def _header(path: Path, data: bytes) -> Header:
    if data[:4] != b"Obj\x01":
        raise ArchiveError(f"{path} is no Avro container file: it begins with {data[:4].hex() or 'nothing'}")
    walk, metadata = Walk(data, 4), {}
    try:
        while count := walk.varint():
            if count < 0:
                count = -count
                walk.varint()
            for _ in range(count):
                name = walk.skip(walk.varint()), walk.at
                value = walk.skip(walk.varint()), walk.at
                metadata[data[slice(*name)].decode()] = data[slice(*value)].decode()
        sync = walk.skip(_SYNC_BYTES)
        schema = parse_json(metadata["avro.schema"])
    except (IndexError, KeyError, ValueError) as error:
        raise ArchiveError(f"{path} has no whole Avro header: {error}") from error
    if _canonical(schema) != _CANONICAL:
        schema_name = schema.get("name") if isinstance(schema, dict) else schema
        raise ArchiveError(f"{path} holds {schema_name!r:.80} records of another schema; wanted glimpse.LogBlock")
    return Header(metadata, data[sync : walk.at], walk.at)


def default_codec() -> str:
    """Return the best codec that is installed: zstandard expands three times as fast as deflate."""
    return "deflate" if _zstandard() is None else "zstandard"


def _zstandard() -> Any | None:
    for name in ZSTANDARD:
        with suppress(ImportError):
            return import_module(name)
    return None


def codec_named(name: str) -> Compression:
    """Return a codec by its name in Avro's specification.

    >>> deflate = codec_named("deflate")
    >>> deflate.expand(deflate.press(b"again and again"))
    b'again and again'
    """
    if name == "null":
        return Compression(bytes, bytes)
    if name == "deflate":
        return Compression(_deflate, partial(_expanded, name, partial(zlib.decompressobj, -15), zlib.error))
    if name != "zstandard":
        raise CodecError(f"unknown codec {name!r}; known are {', '.join(CODECS)}")
    library = _zstandard()
    if library is None:
        raise CodecError("codec zstandard needs a package: pip install backports.zstd")
    expand = partial(_expanded, name, library.ZstdDecompressor, library.ZstdError)
    return Compression(lambda data: bytes(library.compress(data, 1)), expand)


def _deflate(data: bytes) -> bytes:
    press = zlib.compressobj(1, zlib.DEFLATED, -15)  # higher levels gain 1% on events and take a third longer
    return press.compress(data) + press.flush()


def _expanded(name: str, decompressor: Callable[[], Any], broken: type[Exception], data: bytes) -> bytes:
    expand = decompressor()
    try:
        blob = bytes(expand.decompress(data, MAX_BLOCK_BYTES))
    except broken as error:
        raise CodecError(f"not {name}: {error}") from error
    if not expand.eof or expand.unused_data:
        raise CodecError(f"not {name}, or more than {MAX_BLOCK_BYTES} bytes")
    return blob
