"""A segment: log blocks in one Avro container file; a torn last block is cut, a damaged one elsewhere refused."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fastavro import writer as write_container
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form

from schemas.json_text import parse_json
from schemas.strict import SchemaError, Walk
from streams.logs.block import SCHEMA, LogBlock, zigzag
from streams.logs.compression import MAX_BLOCK_BYTES, CodecError, codec_named
from streams.logs.files import replace_file

log = logging.getLogger(__name__)

_HEADER_BYTES = 1 << 16
_SYNC_BYTES = 16
_HEAD_BYTES = 20  # two numbers
_CANONICAL = to_parsing_canonical_form(SCHEMA)


class ArchiveError(ValueError):
    """A directory or file that is no archive, or not the one that was asked for."""


class ArchiveCorrupt(ArchiveError):
    """Damage in the middle of an archive's file: the file, the byte, and the offsets before it that are good."""


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
                    found = self._next(file, at)
                except (SchemaError, CodecError) as error:
                    self._judge(file, at, error, f"; the last good offset before it: {good}", last=last)
                    return
                if found is None:
                    return
                block, at = found
                good = str(block.next_offset - 1)
                yield block, at

    def end(self) -> tuple[int | None, int]:
        """Return the offset after its last block (None without one) and the byte where that ends, by one look at each.

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
        return None, self.header.end

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
        size, kept, ends = os.fstat(file.fileno()).st_size, b"", []
        file.seek(at)
        while chunk := file.read(1 << 20):
            window, start = kept + chunk, file.tell() - len(chunk) - len(kept)
            found = window.find(self.header.sync)
            while found >= 0:
                ends.append(start + found + _SYNC_BYTES)
                found = window.find(self.header.sync, found + 1)
            kept = window[-_SYNC_BYTES + 1 :]
        try:
            claimed = at + sum(_frame(_at(file, at, _HEAD_BYTES))) + _SYNC_BYTES
        except SchemaError:
            claimed = size
        return any(end < size for end in ends) or (bool(ends) and claimed < size)


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
        found = schema.get("name") if isinstance(schema, dict) else schema
        raise ArchiveError(f"{path} holds {found!r:.80} records of another schema; wanted glimpse.LogBlock")
    return Header(metadata, data[sync : walk.at], walk.at)
