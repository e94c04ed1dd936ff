"""Unpacking what a producer has compressed, within a bound."""

from __future__ import annotations

from gzip import GzipFile
from io import BytesIO
from typing import Any

from kafka import codec
from kafka.errors import CorruptRecordError

MOST_BATCH_BYTES = 32 << 20  # of one batch, unpacked; the broker bounds it packed, at 1 MB
PIECE_BYTES = 1 << 18


def unpack(batch: Any) -> None:
    """Unpack a batch, up to a bound: what is compressed may be a thousand times as large, and more."""
    if batch._decompressed or not batch.compression_type:
        return
    kind = batch.compression_type
    batch._assert_has_codec(kind)
    data = bytes(memoryview(batch._buffer)[batch._pos :])
    if kind == batch.CODEC_SNAPPY:
        found = codec.snappy_decode(data)  # at most 21 times as large
    elif kind == batch.CODEC_GZIP:
        found = _bounded(GzipFile(fileobj=BytesIO(data)))
    elif kind == batch.CODEC_LZ4:
        found = _bounded(codec.lz4.open(BytesIO(data)))
    else:
        found = _bounded(codec.zstd.ZstdDecompressor().stream_reader(data, read_across_frames=True))
    batch._buffer, batch._pos, batch._decompressed = found, 0, True


def _bounded(reader: Any) -> bytes:
    pieces, size = list[bytes](), 0
    while piece := reader.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BATCH_BYTES:
            raise CorruptRecordError(f"more than {MOST_BATCH_BYTES} bytes, unpacked")
    return b"".join(pieces)
