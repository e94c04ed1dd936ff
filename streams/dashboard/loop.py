"""Records in, freshness of each bucket out, measured now and then: click → learned → published → first served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.records import Click, Impression, SampleBatch, Snapshot
from streams.dashboard.rounding import short
from streams.dashboard.source import Entry
from streams.freshness import BucketFreshness, Freshness, Spread

REMEMBERED = 2_000  # clicks, lists and snapshots of a bucket
EVERY_MS = 5_000
EVERY_BUCKETS = 10  # with so many more buckets, so much more time between two measurements


class Loop:
    """Follows the clicks that were read around the loop; ``rows`` has a row per bucket."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self._freshness = Freshness(most=REMEMBERED)
        self._measured_ms = 0

    def add_events(self, shown: Iterable[Impression], clicked: Iterable[Click]) -> None:
        """Note events that were read."""
        for click in clicked:
            self._freshness.add_click(click.impression_id, click.clicked_at_ms)
        for impression in shown:
            version = impression.ranked_by_epoch, impression.ranked_by_offset
            self._freshness.add_impression(impression.bucket, version, impression.shown_at_ms)

    def add_samples(self, batch: SampleBatch, entry: Entry) -> None:
        """Note a sample record."""
        self._freshness.add_samples(batch, offset=entry.offset, at_ms=entry.timestamp_ms)

    def add_snapshot(self, snapshot: Snapshot, at_ms: int) -> None:
        """Note a snapshot and the time stamp of its record."""
        self._freshness.add_snapshot(
            snapshot.bucket, snapshot.version, learned_at_ms=snapshot.published_at_ms, published_at_ms=at_ms
        )

    def measure(self, now_ms: int) -> None:
        """Bring the rows up to date, unless that was done a moment ago."""
        if now_ms - self._measured_ms < EVERY_MS * (1 + len(self.rows) / EVERY_BUCKETS):
            return
        self._measured_ms = now_ms
        self.rows = {name: row(one) for name, one in self._freshness.buckets(now_ms).items() if one.lists or one.clicks}


def row(fresh: BucketFreshness) -> list[Any]:
    """Return a bucket's medians of the four stages and of the whole way, and how its traffic was ranked."""
    stages = (fresh.join, fresh.learn, fresh.publish, fresh.serve, fresh.total)
    return [
        *(short(stage.p50, 3) if stage else None for stage in stages),
        short(worst(fresh.total), 3),
        fresh.clicks,
        fresh.waiting,
        short(fresh.waiting_s, 3),
        fresh.lists,
        short(fresh.stale),
        fresh.unranked,
    ]


def worst(spread: Spread | None) -> float | None:
    """Return the seconds that 95 of 100 clicks stay below."""
    return spread.p95 if spread else None
