"""A short cut from bytes to records for sample batches, around the walk over every impression id.

It reads a batch whose ids all have the same length below 64 bytes, which is how most services name things, and returns
None for anything else, good or bad, which then takes the strict and slower way. Whatever it reads is held to the same
rules.
"""

from __future__ import annotations

from typing import Any

from schemas.records import SampleBatch
from schemas.strict import MAX_VALUES, SchemaError, Walk


def read_samples(data: bytes, start: int) -> SampleBatch | None:
    """Return the batch that fills ``data`` from ``start``, or None when it is not of the common kind."""
    return _read(data, start, full=False)


def read_full_samples(data: bytes, start: int) -> SampleBatch | None:
    """Return the batch with users and propensities that fills ``data`` from ``start``, or None as above."""
    return _read(data, start, full=True)


def _read(data: bytes, start: int, *, full: bool) -> SampleBatch | None:
    walk = Walk(data, start)
    try:
        bucket = walk.content().decode()
        dim = walk.varint32()
        rows = [walk.content() for _ in range(5)]
        ids = _ids(walk)
        lists = [walk.content() for _ in range(7)]
        version = walk.content().decode() if full else ""
        users, propensities = (walk.content(), walk.content()) if full else (b"", b"")
    except (IndexError, SchemaError, UnicodeDecodeError):
        return None
    if ids is None or walk.at != len(data) or not _fits(dim, rows, ids, lists):
        return None
    items, positions, last_clicks, rewards, contexts = rows
    if len(users) not in (0, 8 * len(ids)) or len(propensities) not in (0, 4 * len(positions)):
        return None
    columns: list[Any] = [items, positions, last_clicks, rewards, contexts, ids, *lists, version, users, propensities]
    return SampleBatch(bucket, dim, *columns)


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
