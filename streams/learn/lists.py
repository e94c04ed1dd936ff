"""Lists of a sample batch: their columns, learned, each or not at all; and some of them as a batch of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner import Bandit, Samples
from schemas.codec import MAX_BYTES, decode
from schemas.fast import sample_spans
from schemas.known import PLAIN, SCHEMAS, writer_of
from schemas.records import SampleBatch

_LEARNED = {"items": "<i8", "positions": "u1", "last_clicks": "u1", "rewards": "<f8", "contexts": "<f4"}
_ROWS = {*_LEARNED, "propensities"}  # columns with an entry per row, not per list
_FULL = {writer_of(schemas[SampleBatch]).header: full for schemas, full in ((PLAIN, False), (SCHEMAS, True))}


@dataclass(frozen=True, slots=True, eq=False)
class SampleColumns:
    """What of a batch is learned: five columns with an entry per row, two per list; views where bytes are read."""

    bucket: str
    dim: int
    items: NDArray[np.int64]
    positions: NDArray[np.uint8]
    last_clicks: NDArray[np.uint8]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32]  # (rows, dim)
    sizes: NDArray[np.uint8]
    signs: NDArray[np.int8]

    @classmethod
    def of(cls, batch: SampleBatch) -> SampleColumns:
        """Return the columns of a decoded batch."""
        columns = (getattr(batch, f"{name}_array") for name in (*_LEARNED, "sizes", "signs"))
        return cls(batch.bucket, batch.dim, *columns)


def read_sample_columns(data: bytes) -> SampleColumns:
    """Return the columns of an encoded batch; raise SchemaError exactly where ``decode`` would."""
    full = _FULL.get(data[:10])
    spans = None if full is None or len(data) > MAX_BYTES else sample_spans(data, 10, full=full)
    if spans is None:
        return SampleColumns.of(decode(data, SampleBatch))
    rows, lists = len(data[spans.rows[1]]), len(spans.ids) // spans.id_step
    counts = (rows, rows, rows, rows, rows * spans.dim)
    columns = [
        np.frombuffer(data, kind, count, span.start)
        for kind, count, span in zip(_LEARNED.values(), counts, spans.rows, strict=True)
    ]
    columns[-1] = columns[-1].reshape(rows, spans.dim)
    columns += [np.frombuffer(data, kind, lists, spans.lists[at].start) for at, kind in enumerate(("u1", "i1"))]
    return SampleColumns(spans.bucket, spans.dim, *columns)


def samples_of(batch: SampleBatch | SampleColumns) -> Samples:
    """Return the columns of a sample batch; its lists are numbered, as their ids are not needed for learning."""
    columns = batch if isinstance(batch, SampleColumns) else SampleColumns.of(batch)
    return Samples(
        item=columns.items,
        position=columns.positions.astype(np.int64),
        last_click=columns.last_clicks.astype(np.int64),
        reward=columns.rewards,
        context=columns.contexts,
        size=columns.sizes.astype(np.int64),
        list_id=np.arange(len(columns.sizes)),
        sign=columns.signs.astype(np.int64),
    )


def learn_lists(model: Bandit, batch: SampleBatch) -> dict[int, str]:
    """Learn every list that can be, and return the numbers of the others, each with the reason.

    A correction takes one version back and adds another: when either cannot be learned, neither is.
    """
    try:
        model.learn(samples_of(batch))  # all of it or nothing
    except ValueError:
        return _sift(model, batch, _together(batch))
    return {}


def _sift(model: Bandit, batch: SampleBatch, together: Sequence[Sequence[int]]) -> dict[int, str]:
    chosen = [number for numbers in together for number in numbers]
    try:
        model.learn(samples_of(some_lists(batch, chosen)))
    except ValueError as refusal:
        if len(together) == 1:
            return dict.fromkeys(chosen, str(refusal))
        half = len(together) // 2
        return _sift(model, batch, together[:half]) | _sift(model, batch, together[half:])
    return {}


def _together(batch: SampleBatch) -> list[list[int]]:
    partitions, offsets = batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist()
    together: dict[tuple[str, int, int], list[int]] = {}
    for number, name in enumerate(zip(batch.impression_ids, partitions, offsets, strict=True)):
        together.setdefault(name, []).append(number)
    return list(together.values())


def some_lists(batch: SampleBatch, numbers: Sequence[int]) -> SampleBatch:
    """Return the lists of a batch that have these numbers, as a batch."""
    chosen = np.zeros(len(batch.impression_ids), np.bool_)
    chosen[list(numbers)] = True
    rows = np.repeat(chosen, batch.sizes_array)
    changes: dict[str, Any] = {}
    for part in fields(batch):
        column = getattr(batch, part.name)
        if isinstance(column, list):
            changes[part.name] = [entry for entry, kept in zip(column, chosen.tolist(), strict=True) if kept]
        elif isinstance(column, bytes):
            which = rows if part.name in _ROWS else chosen
            if len(which):
                changes[part.name] = np.frombuffer(column, np.uint8).reshape(len(which), -1)[which].tobytes()
    return replace(batch, **changes)
