"""Click rates of sample batches: over time, by position and last click, and how long the join took."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from learner.bandits import CONTEXT_FREE
from learner.browsing import MAX_POSITIONS
from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch, Snapshot
from streams.dashboard.recent import DECADES, PER_DECADE, SPAN_MS, Recent, delay_bins
from streams.dashboard.source import WeightedRecord
from streams.dashboard.timeline import Timeline
from streams.settings import Bucket

LISTS, CLICKS, CLICKED = range(3)  # fields over time: net lists, net clicks, net lists with a click
ROWS, HITS, SEEN, EXPECTED, JUDGED = range(5)  # fields of a cell: rows, clicks, Σ w, Σ w θᵀx, rows that had a θ
WINDOWS = {
    "5m": (2_500, 120),
    "30m": (15_000, 120),
    "2h": (60_000, 120),
    "24h": (720_000, 120),
}  # bin width in ms, bins
FUTURE_MS = 600_000
WITH_TABLE = ("ubm-linucb",)  # those that weigh a row by its examination and have a θ


class RateColumns:
    """Bucket names in the order in which they were met, configured ones first."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = list(names)
        self._number = {name: number for number, name in enumerate(self.names)}

    def __contains__(self, name: object) -> bool:
        """Return whether a bucket was met."""
        return name in self._number

    def of(self, name: str) -> int:
        """Return the number of a bucket, a new one for a new name."""
        if name not in self._number:
            self._number[name] = len(self.names)
            self.names.append(name)
        return self._number[name]


def timelines(fields: int) -> dict[str, Timeline]:
    """Return one empty timeline per window that the page offers, and one for all of the log."""
    found = {name: Timeline(width_ms=width, bins=bins, fields=fields) for name, (width, bins) in WINDOWS.items()}
    return found | {"all": Timeline(width_ms=1000, bins=120, fields=fields, grow=True)}


class Rates:
    """Counts what the samples say about each bucket; a list with sign −1 takes back what it had added.

    Parameters
    ----------
    buckets
        The configured ones, for their examination tables; others may appear.
    columns
        The numbers of the buckets, shared with the rest of the page.
    """

    def __init__(self, buckets: Mapping[str, Bucket], columns: RateColumns) -> None:
        self.buckets, self.columns = buckets, columns
        self.timelines = timelines(fields=3)
        self.cells: dict[str, Recent] = {}  # (fields, K, K): position, last click
        self.join_delays: dict[str, Recent] = {}
        self.unreadable = 0
        self.newest_ms = self.oldest_ms = 0  # of shown-at

    def add(
        self,
        entries: list[WeightedRecord],
        snapshots: Mapping[str, Snapshot],
        *,
        now_ms: int,
        also: Callable[[SampleBatch, WeightedRecord], None] | None = None,
    ) -> list[tuple[int, float]]:
        """Count batches, hand each to ``also``, and return when each was written and how many lists were new in it."""
        times, columns, amounts, joined = [], [], [], []
        for entry in entries:
            try:
                batch: SampleBatch = decode(entry.record.value or b"", SampleBatch)
                counted, new = self._count(batch, entry, snapshots.get(batch.bucket), now_ms + FUTURE_MS)
            except (SchemaError, ValueError, IndexError):
                self.unreadable += 1  # the learner makes it a dead letter
                continue
            if also is not None:
                also(batch, entry)
            times.append(batch.shown_at_ms_array)
            columns.append(np.full(len(batch.sizes), self.columns.of(batch.bucket)))
            amounts.append(counted * entry.weight)
            joined.append((entry.record.timestamp, new * entry.weight))
        if not times:
            return []
        time_ms, column, amount = np.concatenate(times), np.concatenate(columns), np.concatenate(amounts)
        known = (time_ms <= now_ms + FUTURE_MS) & (time_ms > 0)
        if known.any():
            self.newest_ms = max(self.newest_ms, int(time_ms[known].max()))
            self.oldest_ms = min(self.oldest_ms or now_ms, int(time_ms[known].min()))
        for timeline in self.timelines.values():
            timeline.widen(len(self.columns.names))
            timeline.add(time_ms[known], column[known], amount[known])
        return joined

    def _count(
        self, batch: SampleBatch, entry: WeightedRecord, snapshot: Snapshot | None, until_ms: int
    ) -> tuple[NDArray[np.int64], int]:
        """Return what each list adds, and how many of them were joined just now, not corrected or taken back."""
        sizes, signs = batch.sizes_array.astype(np.int64), batch.signs_array.astype(np.int64)
        clicked = batch.rewards_array > 0
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes
        clicks = np.add.reduceat(clicked.astype(np.int64), starts) if len(sizes) else sizes
        shown = batch.shown_at_ms_array
        self._count_cells(
            batch, np.where((shown > 0) & (shown <= until_ms), shown, -1), entry.weight, clicked, snapshot
        )
        first = signs > 0
        if not first.all():
            back = {batch.impression_ids[number] for number in np.flatnonzero(~first)}
            first &= [name not in back for name in batch.impression_ids]
        recent = self.join_delays.setdefault(batch.bucket, Recent((DECADES * PER_DECADE,)))
        bins = delay_bins((entry.record.timestamp - shown[first]) / 1000)
        recent.add(
            min(entry.record.timestamp, until_ms), np.bincount(bins, minlength=DECADES * PER_DECADE) * entry.weight
        )
        return np.stack((signs, signs * clicks, signs * (clicks > 0)), axis=1), int(first.sum())

    def _count_cells(
        self,
        batch: SampleBatch,
        shown_ms: NDArray[np.int64],
        weight: float,
        clicked: NDArray[np.bool_],
        snapshot: Snapshot | None,
    ) -> None:
        """Count rows where their list was shown, so that what is taken back leaves where it had come."""
        bucket = self.buckets.get(batch.bucket)
        if batch.bucket not in self.cells:
            most = bucket.positions if bucket else MAX_POSITIONS
            self.cells[batch.bucket] = Recent((5, most, most))
        recent = self.cells[batch.bucket]
        most = recent.shape[1]
        position, last = batch.positions_array.astype(np.int64), batch.last_clicks_array.astype(np.int64)
        chance = chances(bucket, position, last)
        ones, none = np.ones(len(position)), np.zeros(len(position))
        fields = [ones, clicked.astype(np.float64), none if chance is None else chance, none, none]
        seen = weights(bucket, snapshot, chance, len(position))
        if snapshot is not None and seen is not None and batch.dim and len(snapshot.theta_array) == batch.dim:
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
                sums[field] += np.bincount(cell[rows], signs[rows] * amount[rows], minlength=most * most).reshape(
                    most, most
                )


def chances(bucket: Bucket | None, position: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return the chance of each row of being seen as the bucket's table has it, None without one."""
    table = bucket.examination if bucket else None
    if table is None:
        return None
    return np.asarray(table[position - 1] if table.ndim == 1 else table[position - 1, last])


def weights(
    bucket: Bucket | None, snapshot: Snapshot | None, chance: NDArray[np.float64] | None, rows: int
) -> NDArray[np.float64] | None:
    """Return how the algorithm weighs each row in what it expects; None when it is not known, or has no θ for a row."""
    algorithm = snapshot.algorithm if snapshot else bucket.algorithm if bucket else None
    if algorithm in WITH_TABLE:
        return chance
    return None if algorithm is None or algorithm in CONTEXT_FREE else np.ones(rows)
