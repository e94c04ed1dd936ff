"""Sample batches in, click rates out: over time, by position and last click, and how long the join took."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from learner.browsing import MAX_POSITIONS
from schemas.codec import SchemaError, decode
from schemas.records import SampleBatch, Snapshot
from streams.dashboard.recent import DECADES, PER_DECADE, Recent, delay_bins
from streams.dashboard.source import Entry
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


class Columns:
    """Bucket names in the order in which they were met, configured ones first."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = list(names)
        self._number = {name: number for number, name in enumerate(self.names)}

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

    def __init__(self, buckets: Mapping[str, Bucket], columns: Columns) -> None:
        self.buckets, self.columns = buckets, columns
        self.timelines = timelines(fields=3)
        self.cells: dict[str, Recent] = {}  # (fields, K, K): position, last click
        self.join_delays: dict[str, Recent] = {}
        self.unreadable = 0
        self.newest_ms = 0  # of shown-at

    def add(
        self,
        entries: list[Entry],
        snapshots: Mapping[str, Snapshot],
        *,
        now_ms: int,
        also: Callable[[SampleBatch, Entry], None] | None = None,
    ) -> int:
        """Count batches, hand each to ``also``, and return how many lists they add, in the net."""
        times, columns, amounts = [], [], []
        for entry in entries:
            try:
                batch: SampleBatch = decode(entry.value or b"", SampleBatch)
                counted = self._count(batch, entry, snapshots.get(batch.bucket))
            except (SchemaError, ValueError, IndexError):
                self.unreadable += 1  # the learner makes it a dead letter
                continue
            if also is not None:
                also(batch, entry)
            times.append(batch.shown_at_ms_array)
            columns.append(np.full(len(batch.sizes), self.columns.of(batch.bucket)))
            amounts.append(counted)
        if not times:
            return 0
        time_ms, column, amount = np.concatenate(times), np.concatenate(columns), np.concatenate(amounts)
        known = (time_ms <= now_ms + FUTURE_MS) & (time_ms > 0)
        if known.any():
            self.newest_ms = max(self.newest_ms, int(time_ms[known].max()))
        for timeline in self.timelines.values():
            timeline.widen(len(self.columns.names))
            timeline.add(time_ms[known], column[known], amount[known])
        return int(amount[:, LISTS].sum())

    def _count(self, batch: SampleBatch, entry: Entry, snapshot: Snapshot | None) -> NDArray[np.int64]:
        sizes, signs = batch.sizes_array.astype(np.int64), batch.signs_array.astype(np.int64)
        clicked = batch.rewards_array > 0
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes
        clicks = np.add.reduceat(clicked.astype(np.int64), starts) if len(sizes) else sizes
        self._count_cells(batch, entry.timestamp_ms, np.repeat(signs, sizes), clicked, snapshot)
        self._count_delays(batch, entry.timestamp_ms, signs)
        return np.stack((signs, signs * clicks, signs * (clicks > 0)), axis=1)

    def _count_cells(
        self,
        batch: SampleBatch,
        at_ms: int,
        signs: NDArray[np.int64],
        clicked: NDArray[np.bool_],
        snapshot: Snapshot | None,
    ) -> None:
        bucket = self.buckets.get(batch.bucket)
        if batch.bucket not in self.cells:
            most = bucket.positions if bucket else MAX_POSITIONS
            self.cells[batch.bucket] = Recent((5, most, most))
        sums = self.cells[batch.bucket].at(at_ms)
        most = sums.shape[1]
        position, last = batch.positions_array.astype(np.int64), batch.last_clicks_array.astype(np.int64)
        weight = weights(bucket, position, last)
        expected, judged = np.zeros(len(position)), np.zeros(len(position))
        if snapshot is not None and batch.dim and len(snapshot.theta_array) == batch.dim:
            attraction = batch.contexts_array @ (snapshot.theta_array / snapshot.context_scale)
            expected, judged = weight * np.clip(attraction, 0.0, 1.0), np.ones(len(position))
        cell = (position - 1) * most + last
        ones = np.ones(len(position))
        for field, amount in enumerate((ones, clicked.astype(np.float64), weight, expected, judged)):
            sums[field] += np.bincount(cell, signs * amount, minlength=most * most).reshape(most, most)

    def _count_delays(self, batch: SampleBatch, at_ms: int, signs: NDArray[np.int64]) -> None:
        first = signs > 0
        if not first.all():  # a correction is no news of the join
            back = {batch.impression_ids[number] for number in np.flatnonzero(~first)}
            first &= [name not in back for name in batch.impression_ids]
        waited = (at_ms - batch.shown_at_ms_array[first]) / 1000
        recent = self.join_delays.setdefault(batch.bucket, Recent((DECADES * PER_DECADE,)))
        recent.at(at_ms)[:] += np.bincount(delay_bins(waited), minlength=DECADES * PER_DECADE)


def weights(bucket: Bucket | None, position: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the chance that the bucket's algorithm gives each row of being seen; 1 where it has no table."""
    table = bucket.examination if bucket else None
    if table is None:
        return np.ones(len(position))
    return np.asarray(table[position - 1] if table.ndim == 1 else table[position - 1, last])
