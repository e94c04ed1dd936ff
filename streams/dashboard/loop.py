"""Freshness of each bucket, measured now and then: click → learned → published → first served."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from schemas.records import Click, Impression, SampleBatch, Snapshot
from streams.dashboard.freshness import BucketFreshness, Freshness
from streams.dashboard.rounding import short
from streams.dashboard.source import WeightedRecord

SLACK_S = 300.0  # a sample may come so long after its horizon, when the join is behind
EVERY_S = 5.0
EVERY_BUCKETS = 10  # with so many more buckets, so much more time between two measurements


class FreshnessLoop:
    """Follows the clicks that were read around the loop; ``rows`` has a row per bucket."""

    def __init__(self, horizon_s: float) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.share = 1.0  # of the clicks, those that are followed
        self.since_ms = 0
        self._freshness = Freshness(keep_s=horizon_s + SLACK_S)
        self._measured_at: tuple[float, float] | None = None  # log time and wall time, in seconds
        self._changed = False

    @property
    def tolerance_s(self) -> float:
        """So much older than the newest snapshot may be what ranks a list that is not stale."""
        return self._freshness.tolerance_ms / 1000

    def add_clicks(self, clicked: Iterable[Click]) -> None:
        """Note clicks, before the samples that hold them."""
        for click in clicked:
            self._freshness.add_click(click.impression_id, click.clicked_at_ms)
            self._changed = True

    def add_impressions(self, shown: Iterable[Impression]) -> None:
        """Note lists that were shown."""
        for impression in shown:
            version = impression.ranked_by_epoch, impression.ranked_by_offset
            self._freshness.add_impression(impression.bucket, version, impression.shown_at_ms)
            self._changed = True

    def add_reach(self, first_ms: int | None, gap: tuple[int, int] | None) -> None:
        """Note from when on impressions were read, and between which times they were passed over."""
        if first_ms is not None:
            self._freshness.read_from(first_ms)
        if gap is not None:
            self._freshness.add_gap(*gap)

    def add_samples(self, batch: SampleBatch, entry: WeightedRecord) -> None:
        """Note a sample record."""
        self._freshness.add_samples(batch, offset=entry.record.offset, at_ms=entry.record.timestamp)
        self._changed = True

    def add_snapshot(self, snapshot: Snapshot, at_ms: int) -> None:
        """Note a snapshot and the time stamp of its record."""
        self._freshness.add_snapshot(
            snapshot.bucket, snapshot.version, learned_at_ms=snapshot.published_at_ms, published_at_ms=at_ms
        )
        self._changed = True

    def measure(self, now_ms: int, *, wall_s: float, behind: bool, known: Container[str]) -> None:
        """Bring the rows up to date, unless history is still being read or that was done a moment ago.

        An archive's time stands still at its end, and a quiet log has no news: so either clock may ask for it.
        """
        self._freshness.forget(now_ms)
        now_s = now_ms / 1000
        if self._measured_at is not None:
            passed = now_s - self._measured_at[0], (wall_s - self._measured_at[1]) * self._changed
            if max(passed) < EVERY_S * (1 + len(self.rows) / EVERY_BUCKETS):
                return
        if behind:
            return
        self._measured_at, self._changed = (now_s, wall_s), False
        found = self._freshness.buckets(now_ms, known)
        self.since_ms = self._freshness.since_ms(now_ms)
        self.share = min((one.share for one in found.values()), default=self._freshness.share)
        self.rows = {
            name: row(one) for name, one in found.items() if one.lists or one.clicks or one.waiting or one.unranked
        }


def row(fresh: BucketFreshness) -> list[Any]:
    """Return a bucket's medians of the four stages and of the whole way, and how its traffic was ranked."""
    stages = (fresh.join, fresh.learn, fresh.publish, fresh.serve, fresh.total)
    return [
        *(short(stage.p50, 3) if stage else None for stage in stages),
        short(fresh.total.p95, 3) if fresh.total else None,  # what 95 of 100 clicks stay below
        fresh.clicks,
        fresh.waiting,
        short(fresh.waiting_s, 3),
        fresh.lists,
        short(fresh.stale),
        fresh.unranked,
    ]
