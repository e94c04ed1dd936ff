"""Click rates of sample batches: over time, by position and last click, and how long the join took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.bandits import ALGORITHMS
from learner.browsing import MAX_POSITIONS
from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch, Snapshot
from streams.dashboard.recent import SPAN_MS, DelayHistogram, Recent
from streams.dashboard.source import WeightedRecord
from streams.dashboard.timeline import FUTURE_MS, timelines
from streams.settings import Bucket

LISTS, CLICKS, CLICKED = range(3)  # fields over time: net lists, net clicks, net lists with a click
ROWS, HITS, SEEN, EXPECTED, JUDGED = range(5)  # fields of a cell: rows, clicks, Σ w, Σ w θᵀx, rows that had a θ


class CountedBatch(NamedTuple):
    """A batch of samples that was counted."""

    batch: SampleBatch
    entry: WeightedRecord
    new_lists: float  # joined just now, not corrected or taken back; weighted


class Rates:
    """Counts what the samples say about each bucket; a list with sign −1 takes back what it had added.

    The configured ``buckets`` have examination tables; others may appear.
    """

    def __init__(self, buckets: Mapping[str, Bucket]) -> None:
        self.buckets = buckets
        self.columns = {name: number for number, name in enumerate(buckets)}  # in the order in which they were met
        self.timelines = timelines(fields=3)
        self.cells: dict[str, Recent] = {}  # (fields, K, K): position, last click
        self.join_delays: defaultdict[str, DelayHistogram] = defaultdict(DelayHistogram)
        self.unreadable = 0
        self.newest_ms = self.oldest_ms = 0  # of shown-at

    def column(self, bucket: str) -> int:
        """Return the number of a bucket, a new one for a new name."""
        return self.columns.setdefault(bucket, len(self.columns))

    def add(
        self, entries: list[WeightedRecord], snapshots: Mapping[str, Snapshot], *, now_ms: int
    ) -> list[CountedBatch]:
        """Count batches, and return those that could be read."""
        counted, columns, amounts = list[CountedBatch](), [], []
        for entry in entries:
            try:
                batch: SampleBatch = decode(entry.record.value or b"", SampleBatch)
                counts, new = self._count(batch, entry, snapshots.get(batch.bucket), now_ms + FUTURE_MS)
            except (SchemaError, ValueError, IndexError):
                self.unreadable += 1  # the learner makes it a dead letter
                continue
            counted.append(CountedBatch(batch, entry, new * entry.weight))
            columns.append(np.full(len(batch.sizes), self.column(batch.bucket)))
            amounts.append(counts * entry.weight)
        if counted:
            time_ms = np.concatenate([each.batch.shown_at_ms_array for each in counted])
            known = (time_ms <= now_ms + FUTURE_MS) & (time_ms > 0)
            if known.any():
                self.newest_ms = max(self.newest_ms, int(time_ms[known].max()))
                self.oldest_ms = min(self.oldest_ms or now_ms, int(time_ms[known].min()))
            column, amount = np.concatenate(columns), np.concatenate(amounts)
            for timeline in self.timelines.values():
                timeline.widen(len(self.columns))
                timeline.add(time_ms[known], column[known], amount[known])
        return counted

    def _count(
        self, batch: SampleBatch, entry: WeightedRecord, snapshot: Snapshot | None, until_ms: int
    ) -> tuple[NDArray[np.int64], int]:
        """Return what each list adds, and how many of them were joined just now, not corrected or taken back."""
        sizes, signs = batch.sizes_array.astype(np.int64), batch.signs_array.astype(np.int64)
        clicked = batch.rewards_array > 0
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes
        clicks = np.add.reduceat(clicked.astype(np.int64), starts) if len(sizes) else sizes
        shown = batch.shown_at_ms_array
        self._count_cells(batch, snapshot, entry.weight, until_ms)
        first = signs > 0
        if not first.all():
            back = {batch.impression_ids[number] for number in np.flatnonzero(~first)}
            first &= [name not in back for name in batch.impression_ids]
        at_ms = entry.record.timestamp
        self.join_delays[batch.bucket].add(min(at_ms, until_ms), (at_ms - shown[first]) / 1000, entry.weight)
        return np.stack((signs, signs * clicks, signs * (clicks > 0)), axis=1), int(first.sum())

    def _count_cells(self, batch: SampleBatch, snapshot: Snapshot | None, weight: float, until_ms: int) -> None:
        """Count rows where their list was shown, so that what is taken back leaves where it had come."""
        bucket, shown_ms = self.buckets.get(batch.bucket), batch.shown_at_ms_array
        shown_ms = np.where((shown_ms > 0) & (shown_ms <= until_ms), shown_ms, -1)
        if batch.bucket not in self.cells:
            most = bucket.positions if bucket else MAX_POSITIONS
            self.cells[batch.bucket] = Recent((5, most, most))
        recent = self.cells[batch.bucket]
        most = recent.shape[1]
        position, last = batch.positions_array.astype(np.int64), batch.last_clicks_array.astype(np.int64)
        table, chance = bucket.examination if bucket else None, None  # of a row of being seen, as the table has it
        if table is not None:
            chance = np.asarray(table[position - 1] if table.ndim == 1 else table[position - 1, last])
        ones, none = np.ones(len(position)), np.zeros(len(position))
        hits = (batch.rewards_array > 0).astype(np.float64)
        fields = [ones, hits, none if chance is None else chance, none, none]
        kind = ALGORITHMS.get(snapshot.algorithm) if snapshot else None
        seen = chance if snapshot and weighs_by_table(snapshot.algorithm) else ones
        if snapshot and kind and kind.contextual and seen is not None and len(snapshot.theta_array) == batch.dim > 0:
            attraction = batch.contexts_array @ (snapshot.theta_array / snapshot.context_scale)
            fields[EXPECTED:] = [seen * np.clip(attraction, 0.0, 1.0), ones]
        signs = np.repeat(batch.signs_array.astype(np.float64) * weight, batch.sizes_array)
        generation = np.repeat(shown_ms // SPAN_MS, batch.sizes_array)
        cell = (position - 1) * most + last
        for number in np.unique(generation[generation >= 0])[::-1]:
            lists = shown_ms[shown_ms // SPAN_MS == number]
            sums, rows = recent.at(int(lists.min())), generation == number
            if sums is None:
                return
            for field, amount in enumerate(fields):
                added = np.bincount(cell[rows], signs[rows] * amount[rows], minlength=most * most)
                sums[field] += added.reshape(most, most)


def weighs_by_table(algorithm: str) -> bool:
    """Return whether an algorithm weighs a row by its examination and has a θ for it."""
    kind = ALGORITHMS.get(algorithm)
    return kind is not None and kind.contextual and kind.table_axes > 0
