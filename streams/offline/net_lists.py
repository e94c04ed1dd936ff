"""The lists of sample batches as they ended up, in the columns of a file of lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import SampleBatch
from streams.offline.candidates import CandidateLists
from streams.offline.logs import NOTHING, Logs, spread


class ListPlace(NamedTuple):
    """Where a list's impression stands."""

    partition: int
    offset: int


class LoggedList(NamedTuple):
    """One list as it ended up."""

    shown_at_ms: int
    impression_id: str
    place: ListPlace
    items: NDArray[np.int64]
    rewards: NDArray[np.float64]
    contexts: NDArray[np.float32]
    propensities: NDArray[np.float32]  # of no row where the list was not drawn
    candidate_items: NDArray[np.int64] | None = None
    candidate_contexts: NDArray[np.float32] | None = None


class NetColumns:
    """The lists of sample batches as they ended up: corrected, taken back."""

    def __init__(
        self, *, buckets: tuple[str, ...], from_ms: int | None, to_ms: int | None, newest: int | None = None
    ) -> None:
        self._buckets, self._from_ms, self._to_ms, self._newest = buckets, from_ms, to_ms, newest
        self._last: dict[tuple[str, ListPlace], LoggedList] = {}
        self._net: dict[tuple[str, ListPlace], int] = {}
        self.buckets: set[str] = set()

    def add(self, batch: SampleBatch) -> None:
        """Take in the chosen lists of a batch."""
        if self._buckets and batch.bucket not in self._buckets:
            return
        ends = np.cumsum(batch.sizes_array.astype(np.int64)).tolist()
        shown, signs = batch.shown_at_ms_array.tolist(), batch.signs_array.tolist()
        rows = (batch.items_array, batch.rewards_array, batch.contexts_array, batch.propensities_array)
        places = map(ListPlace, batch.source_partitions_array.tolist(), batch.source_offsets_array.tolist())
        for number, (start, end, place) in enumerate(zip([0, *ends], ends, places, strict=False)):
            if not self._takes(shown[number]):
                continue
            name = batch.impression_ids[number]
            self._net[name, place] = self._net.get((name, place), 0) + signs[number]
            if signs[number] > 0:
                columns: list[Any] = [column[start:end] for column in rows]
                self._last[name, place] = LoggedList(shown[number], name, place, *columns)
                self.buckets.add(batch.bucket)
        if self._newest is not None and len(self._net) > 4 * self._newest:
            self._forget(2 * self._newest)

    def _forget(self, keep: int) -> None:
        """Keep the lists that were shown last, more than are asked for: some may yet be taken back."""
        kept = sorted(self._last, key=lambda key: self._last[key].shown_at_ms)[-keep:]
        self._last = {key: self._last[key] for key in kept}
        self._net = {key: self._net[key] for key in kept}

    def _takes(self, shown_at_ms: int) -> bool:
        late_enough = self._from_ms is None or shown_at_ms >= self._from_ms
        return late_enough and (self._to_ms is None or shown_at_ms < self._to_ms)

    @property
    def taken_back_unseen(self) -> int:
        """How many lists were taken back more often than they were added: the log has lost its beginning."""
        return sum(net < 0 for net in self._net.values())

    def lists(self) -> list[LoggedList]:
        """Return the lists in the net, in the order in which they were shown."""
        lists = sorted((self._last[key] for key, net in self._net.items() if net > 0), key=lambda one: one[:3])
        return lists if self._newest is None else lists[-self._newest :]


def columns_of(lists: list[LoggedList], name: str) -> Logs:
    """Return lists as columns; candidates and propensities if all lists have them."""
    sizes = np.array([len(one.items) for one in lists])
    shown = np.arange(sizes.max()) < sizes[:, None]
    chosen_from = [one.candidate_items for one in lists if one.candidate_items is not None]
    if len(chosen_from) < len(lists):
        chosen_from = []
    every = np.concatenate([*(one.items for one in lists), *chosen_from])
    item_ids, numbers = np.unique(every, return_inverse=True)
    dims = {one.contexts.shape[1] for one in lists}
    contexts = propensities = candidates = None
    if len(dims) == 1 and dims != {0}:
        contexts = spread(shown, np.concatenate([one.contexts for one in lists]), 0.0)
    if all(len(one.propensities) for one in lists):
        chances = np.concatenate([one.propensities for one in lists])
        propensities = spread(shown, chances.astype(np.float64), 1.0)
    if chosen_from:
        vectors = [one.candidate_contexts for one in lists if one.candidate_contexts is not None]
        candidates = CandidateLists.of(
            numbers[sizes.sum() :], map(len, chosen_from), vectors if contexts is not None and vectors else None
        )
    return Logs(
        name=name,
        lines=np.arange(1, len(lists) + 1),
        items=spread(shown, numbers[: sizes.sum()], NOTHING),
        item_ids=item_ids.tolist(),
        clicks=spread(shown, np.concatenate([one.rewards for one in lists]), 0.0),
        sizes=sizes,
        queries=None,
        query_ids=[],
        sessions=None,
        contexts=contexts,
        propensities=propensities,
        position_propensities=None,
        candidates=candidates,
        names=[one.impression_id for one in lists],
    )
