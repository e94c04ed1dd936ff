"""The check that the packed columns of a record agree in length."""

from __future__ import annotations

import math
import re
from reprlib import repr as _short  # what is wrong may be a megabyte long
from typing import TypeVar

from schemas.records import Impression, SampleBatch, Snapshot, StateArray
from schemas.strict import SchemaError

R = TypeVar("R")
_PER_ROW = {"items": 8, "last_clicks": 1, "rewards": 8}
_PER_LIST = {
    **{"sizes": 1, "signs": 1, "shown_at_ms": 8, "source_partitions": 4},
    **{"source_offsets": 8, "ranked_by_epochs": 4, "ranked_by_offsets": 8},
}
MAX_AXES = 8
_DTYPE = re.compile(r"\|[biu]1|<[iuf][248]")


def checked(record: R) -> R:
    """Return ``record`` if its columns fit together, else raise a SchemaError that names the first that does not.

    ``encode`` and ``decode`` call this, so the ``*_array`` properties of a record from the wire never fail. It looks at
    lengths only: NaN contexts, positions outside the list or unknown buckets are for the stages to judge.

    >>> checked(Impression("i", "s", "b", "u", 0, items=bytes(16), contexts=bytes(12), rendered=2))
    Traceback (most recent call last):
        ...
    schemas.strict.SchemaError: contexts has 12 bytes, not a whole number of float32 for each of 2 items
    """
    if isinstance(record, Impression):
        _check_impression(record)
    elif isinstance(record, SampleBatch):
        _check_samples(record)
    elif isinstance(record, Snapshot):
        if len(record.theta) % 8:
            raise SchemaError(f"theta has {len(record.theta)} bytes, not a whole number of float64")
        for part in record.state:
            _check_state(part)
    return record


def _check_impression(record: Impression) -> None:
    if not record.items or len(record.items) % 8:
        raise SchemaError(f"items has {len(record.items)} bytes, not one or more int64")
    if len(record.contexts) % (4 * record.size):
        raise SchemaError(
            f"contexts has {len(record.contexts)} bytes, not a whole number of float32 for each of {record.size} items"
        )
    if record.propensities and len(record.propensities) != 4 * record.size:
        raise SchemaError(
            f"propensities has {len(record.propensities)} bytes, not one float32 for each of {record.size} items"
        )
    if len(record.candidate_items) % 8:
        raise SchemaError(f"candidate_items has {len(record.candidate_items)} bytes, not a whole number of int64")
    row = len(record.contexts) // record.size
    if record.candidate_contexts and len(record.candidate_contexts) != row * (len(record.candidate_items) // 8):
        raise SchemaError(
            f"candidate_contexts has {len(record.candidate_contexts)} bytes, not the {row} of an item for each of "
            f"{len(record.candidate_items) // 8} candidates"
        )


def _check_samples(record: SampleBatch) -> None:
    rows, lists = len(record.positions), len(record.impression_ids)
    if record.dim < 0:
        raise SchemaError(f"dim must be 0 or more, got {record.dim}")
    wanted = {name: width * rows for name, width in _PER_ROW.items()}
    wanted |= {name: width * lists for name, width in _PER_LIST.items()}
    wanted["contexts"] = 4 * record.dim * rows
    wanted["user_hashes"] = 8 * lists if record.user_hashes else 0
    wanted["propensities"] = 4 * rows if record.propensities else 0
    for name, size in wanted.items():
        found = len(getattr(record, name))
        if found != size:
            raise SchemaError(f"{name} has {found} bytes, not the {size} of {rows} rows in {lists} lists")
    if sum(record.sizes) != rows:
        raise SchemaError(f"sizes sum to {sum(record.sizes)} rows, but positions has {rows}")


def _check_state(part: StateArray) -> None:
    if not _DTYPE.fullmatch(part.dtype):
        raise SchemaError(f"a state has dtype {_short(part.dtype)}, wanted little-endian numbers such as '<i8'")
    plain = len(part.shape) <= MAX_AXES and all(length >= 0 for length in part.shape)
    if not plain or math.prod(part.shape) * int(part.dtype[2:]) != len(part.data):
        raise SchemaError(
            f"state {_short(part.name)} has {len(part.data)} bytes, not the shape {_short(part.shape)} of {part.dtype}"
        )
