"""Finished lists packed into SampleBatch records of at most 512 KB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import Impression, SampleBatch
from streams.events import LIST_BYTES, MAX_RECORD_BYTES, RECORD_BYTES, user_hash

_NOTED_ROW, _NOTED_LIST = 4, 8  # bytes of a propensity, and of a user's hash


class ListNote(NamedTuple):
    """What an impression says of its list beside its rows, where it says any of it."""

    split_version: str
    propensities: bytes  # float32 of each position, or none
    user: int  # its hash


def note_of(shown: Impression) -> ListNote | None:
    """Return what goes from an impression into a sample beside its rows, if it says so."""
    if not (shown.split_version or shown.propensities):
        return None
    return ListNote(shown.split_version, shown.propensities, user_hash(shown.user_id))


class Lists(NamedTuple):
    """Lists of one bucket in columns: five with an entry per row, the others with an entry per list."""

    items: NDArray[np.int64]
    positions: NDArray[np.uint8]
    last_clicks: NDArray[np.uint8]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32]
    ids: NDArray[np.object_]
    sizes: NDArray[np.uint8]
    shown_at: NDArray[np.int64]
    offsets: NDArray[np.int64]
    epochs: NDArray[np.int32]
    ranked_by: NDArray[np.int64]
    notes: NDArray[np.object_]  # ListNote or None

    def bytes_each(self) -> NDArray[np.int64]:
        """Return how many bytes each list takes in a record."""
        per_row = 18 + 4 * self.contexts.shape[1]
        ids = np.fromiter((len(name) for name in self.ids), np.int64, len(self.ids))
        noted = np.array([note is not None for note in self.notes], np.int64)
        sizes: NDArray[np.int64] = self.sizes * (per_row + _NOTED_ROW * noted)
        return sizes + 4 * ids + LIST_BYTES + _NOTED_LIST * noted  # a character takes at most 4 bytes

    def alike(self) -> list[Lists]:
        """Return the lists by what a record says of all its lists: their split, and whether they were drawn."""
        if self.notes.tolist().count(None) == len(self.notes):
            return [self]
        kinds: dict[tuple[str, bool] | None, list[int]] = {}
        for number, note in enumerate(self.notes):
            kinds.setdefault(note and (note.split_version, bool(note.propensities)), []).append(number)
        chosen = [np.isin(np.arange(len(self.ids)), numbers) for numbers in kinds.values()]
        return [self._pick(np.repeat(lists, self.sizes), lists) for lists in chosen]

    def part(self, start: int, stop: int) -> Lists:
        """Return lists ``start`` to ``stop``."""
        ends = np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))
        return self._pick(slice(int(ends[start]), int(ends[stop])), slice(start, stop))

    def _pick(self, rows: Any, lists: Any) -> Lists:
        columns: list[Any] = [*(column[rows] for column in self[:5]), *(column[lists] for column in self[5:])]
        return Lists(*columns)


def learn(bucket: str, partition: int, lists: Lists) -> Iterator[SampleBatch]:
    """Yield ``lists`` as records to learn from."""
    for alike in lists.alike():
        cuts = _cuts(alike.bytes_each())
        for start, stop in cuts:
            part = alike if len(cuts) == 1 else alike.part(start, stop)
            yield _record(bucket, partition, part, np.ones(stop - start, np.int8))


def correct(bucket: str, partition: int, old: Lists, new: Lists) -> Iterator[SampleBatch]:
    """Yield records that take back ``old`` and learn ``new``, list by list the same; both stand in one record."""
    for before, after in zip(old.alike(), new.alike(), strict=True):
        for start, stop in _cuts(before.bytes_each() + after.bytes_each()):
            pair: Any = zip(before.part(start, stop), after.part(start, stop), strict=True)
            columns = [np.concatenate(both) for both in pair]
            yield _record(bucket, partition, Lists(*columns), np.repeat(np.array([-1, 1], np.int8), stop - start))


def _cuts(sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return where to cut lists of these sizes, so that each part fits a record.

    >>> _cuts(np.array([200_000, 200_000, 200_000, 600_000, 1]))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ends, start, cuts = np.cumsum(sizes), 0, []
    while start < len(sizes):
        room = MAX_RECORD_BYTES - RECORD_BYTES + (int(ends[start - 1]) if start else 0)
        stop = max(start + 1, int(np.searchsorted(ends, room, side="right")))
        cuts.append((start, stop))
        start = stop
    return cuts


def _record(bucket: str, partition: int, lists: Lists, signs: NDArray[np.int8]) -> SampleBatch:
    noted: list[ListNote] = [note for note in lists.notes if note is not None]  # all or none: they are alike
    return SampleBatch(
        bucket=bucket,
        dim=lists.contexts.shape[1],
        items=lists.items.tobytes(),
        positions=lists.positions.tobytes(),
        last_clicks=lists.last_clicks.tobytes(),
        rewards=lists.rewards.tobytes(),
        contexts=lists.contexts.tobytes(),
        impression_ids=lists.ids.tolist(),
        sizes=lists.sizes.tobytes(),
        signs=signs.tobytes(),
        shown_at_ms=lists.shown_at.tobytes(),
        source_partitions=np.full(len(signs), partition, "<i4").tobytes(),
        source_offsets=lists.offsets.tobytes(),
        ranked_by_epochs=lists.epochs.tobytes(),
        ranked_by_offsets=lists.ranked_by.tobytes(),
        split_version=noted[0].split_version if noted else "",
        user_hashes=np.array([note.user for note in noted], "<u8").tobytes(),
        propensities=b"".join(
            note.propensities[: 4 * size] for note, size in zip(noted, lists.sizes.tolist(), strict=False)
        ),
    )
