"""The lists in sample batches by name: which are net there, and the batches that take some of them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from schemas.records import SampleBatch
from streams.learn import some_lists


class NotOnce(ValueError):
    """Lists that the samples hold twice, or that were taken back more often than they were learned."""


class ListName(NamedTuple):
    """One list: its impression, and where that stands."""

    impression_id: str
    partition: int
    offset: int


class SamplePosition(NamedTuple):
    """Where a list is in the samples log."""

    offset: int
    number: int  # of the list in its record


def names(batch: SampleBatch) -> list[ListName]:
    """Return the name of each list of a batch."""
    partitions, offsets = batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist()
    return list(map(ListName, batch.impression_ids, partitions, offsets))


class NetLists:
    """Which chosen lists of a range of time are learned in the net, and where the log has their last version.

    A correction takes the old version back and adds the new one, so the last version that was added is the one to take
    back; a list that was taken back already is not there any more.
    """

    def __init__(self, from_ms: int, to_ms: int, *, chosen: Callable[[ListName], bool] = lambda name: True) -> None:
        self._from_ms, self._to_ms, self._chosen = from_ms, to_ms, chosen
        self._found: dict[ListName, tuple[int, SamplePosition, int]] = {}  # net, last version added, shown at

    def add(self, offset: int, batch: SampleBatch) -> None:
        """Take in the record at ``offset``."""
        shown = batch.shown_at_ms_array
        inside = np.flatnonzero((shown >= self._from_ms) & (shown < self._to_ms)).tolist()
        if not inside:
            return
        names_, signs = names(batch), batch.signs_array.tolist()
        for index in filter(lambda index: self._chosen(names_[index]), inside):
            net, place, _ = self._found.get(names_[index], (0, SamplePosition(offset, index), 0))
            place = SamplePosition(offset, index) if signs[index] > 0 else place
            self._found[names_[index]] = net + signs[index], place, int(shown[index])

    def learned(self) -> dict[ListName, tuple[SamplePosition, int]]:
        """Return the lists that are learned now, with the place of their version and their shown-at."""
        wrong = {name: net for name, (net, _, _) in self._found.items() if net not in (0, 1)}
        if wrong:
            name, net = next(iter(wrong.items()))
            was = (
                "taken back more often than learned (or the samples that they were learned from are deleted)"
                if net < 0
                else "learned more than once (was the join started from a time before its commit?)"
            )
            raise NotOnce(
                f"{len(wrong)} lists of the range are not once or never in the samples; the first, "
                f"{name.impression_id!r} of impressions {name.partition} at offset {name.offset}, is there {net} times "
                f"in the net: {was}. So nothing is taken back; glimpse ledger tells how many of each bucket, and "
                "glimpse replay kafka --events what the bucket should hold"
            )
        return {name: (place, shown) for name, (net, place, shown) in self._found.items() if net == 1}


def take_back(batch: SampleBatch, indices: Iterable[int]) -> SampleBatch:
    """Return some lists of a batch, to be taken back."""
    chosen = some_lists(batch, list(indices))
    return replace(chosen, signs=np.full(len(chosen.sizes), -1, np.int8).tobytes())


def by_record(places: Iterable[SamplePosition]) -> Iterator[tuple[int, list[int]]]:
    """Yield the offsets of the records that hold ``places``, rising, with the lists in each."""
    found: dict[int, list[int]] = {}
    for place in places:
        found.setdefault(place.offset, []).append(place.number)
    yield from sorted(found.items())
