"""Lists of a sample batch: learned, each or not at all; and some of them as a batch of their own."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from learner import Bandit, Samples
from schemas.records import SampleBatch

_ROWS = {
    "items",
    "positions",
    "last_clicks",
    "rewards",
    "contexts",
    "propensities",
}  # columns with an entry per row, not per list


def samples_of(batch: SampleBatch) -> Samples:
    """Return the columns of a sample batch; its lists are numbered, as their ids are not needed for learning."""
    return Samples(
        item=batch.items_array.astype(np.int64, copy=False),
        position=batch.positions_array.astype(np.int64),
        last_click=batch.last_clicks_array.astype(np.int64),
        reward=batch.rewards_array,
        context=batch.contexts_array,
        size=batch.sizes_array.astype(np.int64),
        list_id=np.arange(len(batch.sizes)),
        sign=batch.signs_array.astype(np.int64),
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
