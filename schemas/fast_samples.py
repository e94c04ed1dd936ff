"""A short cut from bytes to records for sample batches, around the walk over every impression id.

It reads a batch whose ids all have the same length below 64 bytes, which is how most services name things, and returns
None for anything else, good or bad, which then takes the strict and slower way. Whatever it reads is held to the same
rules.
"""

from __future__ import annotations

from schemas.records import SampleBatch
from schemas.strict import MAX_VALUES, SchemaError, Walk


def read_samples(data: bytes, start: int) -> SampleBatch | None:
    """Return the batch that fills ``data`` from ``start``, or None when it is not of the common kind."""
    walk = Walk(data, start)
    try:
        bucket = _bytes(walk).decode()
        dim = walk.varint32()
        rows = [_bytes(walk) for _ in range(5)]
        ids = _ids(walk)
        lists = [_bytes(walk) for _ in range(7)]
    except (IndexError, SchemaError, UnicodeDecodeError):
        return None
    if ids is None or walk.at != len(data) or not _fits(dim, rows, ids, lists):
        return None
    items, positions, last_clicks, rewards, contexts = rows
    return SampleBatch(bucket, dim, items, positions, last_clicks, rewards, contexts, ids, *lists)


def _bytes(walk: Walk) -> bytes:
    start = walk.skip(walk.varint())
    return walk.data[start : walk.at]


def _ids(walk: Walk) -> list[str] | None:
    """Return ids of equal length: one block of them, each behind the same length byte."""
    count, at = walk.varint(), walk.at
    if count == 0:
        return []
    step = 1 + (walk.data[at] >> 1)
    if walk.data[at] & 0x81 or not 0 < count <= min(MAX_VALUES // 2, (len(walk.data) - at) // step):
        return None
    block = walk.data[at : at + count * step]
    if block[::step].count(block[0]) != count:
        return None
    walk.at += count * step
    if walk.varint() != 0:  # another block of ids
        return None
    text = block.decode()
    if len(text) != len(block):  # characters of several bytes, which places in the text do not count
        return None
    return [text[start : start + step - 1] for start in range(1, len(text) + 1, step)]


def _fits(dim: int, rows: list[bytes], ids: list[str], lists: list[bytes]) -> bool:
    items, positions, last_clicks, rewards, contexts = rows
    count = len(positions)
    return (
        dim >= 0
        and (len(items), len(last_clicks), len(rewards), len(contexts))
        == (8 * count, count, 8 * count, 4 * dim * count)
        and [len(column) for column in lists] == [width * len(ids) for width in (1, 1, 8, 4, 8, 4, 8)]
        and sum(lists[0]) == count
    )
