"""The codecs of Avro container files: how a block is pressed and expanded."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

MAX_BLOCK_BYTES = 64 << 20  # expanded; more is refused before it takes memory
CODECS = ("zstandard", "deflate", "null")
ZSTANDARD = ("compression.zstd", "backports.zstd")  # of Python 3.14, and for those before it: fastavro uses the same


class CodecError(ValueError):
    """A codec that is unknown or not installed, or bytes that it cannot expand."""


class Compression(NamedTuple):
    """The two ways of one codec."""

    name: str
    press: Callable[[bytes], bytes]
    expand: Callable[[bytes], bytes]


def default_codec() -> str:
    """Return the best codec that is installed: zstandard expands three times as fast as deflate."""
    return "zstandard" if any(map(_installed, ZSTANDARD)) else "deflate"


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


def codec_named(name: str) -> Compression:
    """Return a codec by its name in Avro's specification.

    >>> deflate = codec_named("deflate")
    >>> deflate.expand(deflate.press(b"again and again"))
    b'again and again'
    """
    if name == "null":
        return Compression(name, lambda data: data, lambda data: data)
    if name == "deflate":
        return Compression(name, _deflate, _inflate)
    if name == "zstandard":
        return _zstandard()
    raise CodecError(f"unknown codec {name!r}; known are {', '.join(CODECS)}")


def _deflate(data: bytes) -> bytes:
    press = zlib.compressobj(1, zlib.DEFLATED, -15)  # higher levels gain 1% on events and take a third longer
    return press.compress(data) + press.flush()


def _inflate(data: bytes) -> bytes:
    expand = zlib.decompressobj(-15)
    try:
        found = expand.decompress(data, MAX_BLOCK_BYTES)
    except zlib.error as error:
        raise CodecError(f"not deflate: {error}") from error
    if not expand.eof or expand.unused_data:
        raise CodecError(f"not deflate, or more than {MAX_BLOCK_BYTES} bytes")
    return found


def _zstandard() -> Compression:
    found = [name for name in ZSTANDARD if _installed(name)]
    if not found:
        raise CodecError("codec zstandard needs a package: pip install backports.zstd")
    library = import_module(found[0])

    def expanded(data: bytes) -> bytes:
        expand = library.ZstdDecompressor()
        try:
            blob = bytes(expand.decompress(data, MAX_BLOCK_BYTES))
        except library.ZstdError as error:
            raise CodecError(f"not zstandard: {error}") from error
        if not expand.eof or expand.unused_data:
            raise CodecError(f"not zstandard, or more than {MAX_BLOCK_BYTES} bytes")
        return blob

    return Compression("zstandard", lambda data: bytes(library.compress(data, 1)), expanded)
