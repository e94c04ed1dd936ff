"""Clicks, samples, snapshots and impressions in, how fast a click comes back as a better list out (pure).

The loop of one click: it is joined into a sample, learned, published in a snapshot, and then the first list is shown
that this or a newer snapshot has ranked. Records may come in any order: a topic may be read before another.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import SampleBatch

EPOCH = 1 << 44  # offsets lie below, so that a version (epoch, offset) is one number that grows
NEVER = np.iinfo(np.int64).max
LATER, UNKNOWN = -1, -2


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of seconds in three numbers."""

    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, seconds: NDArray[np.float64]) -> Spread | None:
        """Return the spread of some seconds, None of none.

        >>> Spread.of(np.array([3.0, 1.0, 2.0]))
        Spread(p50=2.0, p95=2.9, max=3.0)
        """
        if not len(seconds):
            return None
        return cls(*(float(value) for value in np.quantile(seconds, (0.5, 0.95, 1.0))))


@dataclass(frozen=True, slots=True)
class BucketFreshness:
    """How fresh one bucket's lists are; each spread is in seconds, over clicks whose loop has closed so far."""

    bucket: str
    join: Spread | None  # click -> written as a sample
    learn: Spread | None  # sample -> learned
    publish: Spread | None  # learned -> published
    serve: Spread | None  # published -> first list ranked by it
    total: Spread | None  # click -> first list
    clicks: int  # clicked lists that the spreads are over
    waiting: int  # clicked lists that are joined, and not served yet
    waiting_s: float  # the longest of those waits, since the click
    lists: int  # lists shown that a model has ranked
    stale: float | None  # share of them for which a newer snapshot had been published for longer than the tolerance
    unranked: int  # lists shown without a model's version


@dataclass(slots=True)
class _Bucket:
    clicked: deque[tuple[int, int, int]] = field(default_factory=deque)  # sample offset, clicked at, joined at
    snapshots: dict[int, tuple[int, int]] = field(default_factory=dict)  # version -> learned at, published at
    first_shown: dict[int, int] = field(default_factory=dict)  # version -> earliest list ranked by it
    shown: deque[tuple[int, int]] = field(default_factory=deque)  # version, shown at


class Freshness:
    """Follows clicks around the loop.

    Parameters
    ----------
    tolerance_s
        A list is not stale if the newer snapshot was published less than this before it was shown.
    most
        So many clicks, lists and snapshots are remembered per bucket, the newest.
    """

    def __init__(self, *, tolerance_s: float = 10.0, most: int = 20_000) -> None:
        self.tolerance_s, self.most = tolerance_s, most
        self._clicks: dict[str, list[int]] = {}
        self._buckets: defaultdict[str, _Bucket] = defaultdict(_Bucket)

    def add_click(self, impression_id: str, clicked_at_ms: int) -> None:
        """Note a click; it is measured when its list comes as a sample."""
        self._clicks.setdefault(impression_id, []).append(clicked_at_ms)
        if len(self._clicks) > 5 * self.most:
            for name in list(islice(self._clicks, self.most)):
                del self._clicks[name]

    def add_samples(self, batch: SampleBatch, *, offset: int, at_ms: int) -> None:
        """Note a record of the samples topic with its offset and time stamp; its clicks must have been noted before."""
        bucket = self._buckets[batch.bucket]
        ends = np.cumsum(batch.sizes_array, dtype=np.int64)
        best = np.maximum.reduceat(batch.rewards_array, ends - batch.sizes_array) if len(ends) else np.zeros(0)
        for index in np.flatnonzero((best > 0) & (batch.signs_array > 0)):
            before = [at for at in self._clicks.get(batch.impression_ids[index], ()) if at <= at_ms]
            if before:
                bucket.clicked.append((offset, max(before), at_ms))
        _trim(bucket.clicked, self.most)

    def add_snapshot(self, bucket: str, version: tuple[int, int], *, learned_at_ms: int, published_at_ms: int) -> None:
        """Note a snapshot: when its state was taken, and the time stamp of its record."""
        known = self._buckets[bucket].snapshots
        known.setdefault(number(version), (learned_at_ms, published_at_ms))
        while len(known) > self.most:
            del known[next(iter(known))]

    def add_impression(self, bucket: str, ranked_by: tuple[int, int], shown_at_ms: int) -> None:
        """Note a list that was shown, and which version had ranked it."""
        found, version = self._buckets[bucket], number(ranked_by)
        found.shown.append((version, shown_at_ms))
        _trim(found.shown, self.most)
        if version >= 0:
            earlier = found.first_shown.get(version, shown_at_ms)
            found.first_shown[version] = min(earlier, shown_at_ms)
            while len(found.first_shown) > self.most:
                del found.first_shown[next(iter(found.first_shown))]

    def buckets(self, now_ms: int) -> dict[str, BucketFreshness]:
        """Return how fresh each bucket is."""
        return {name: self._measure(name, bucket, now_ms) for name, bucket in sorted(self._buckets.items())}

    def _measure(self, name: str, bucket: _Bucket, now_ms: int) -> BucketFreshness:
        versions = np.array(sorted(bucket.snapshots), np.int64)
        times = np.array([bucket.snapshots[int(version)] for version in versions], np.int64).reshape(-1, 2)
        clicked = np.array(bucket.clicked, np.int64).reshape(-1, 3)
        served = first_served(versions, bucket.first_shown)
        first = first_holding(versions, times[:, 1], clicked[:, 0])
        closed = first >= 0
        closed[closed] = served[first[closed]] < NEVER
        waiting = clicked[(first == LATER) | ((first >= 0) & ~closed)]
        chosen, at = clicked[closed], first[closed]
        moments = np.column_stack([chosen[:, 1:], times[at], served[at]])
        stages = np.maximum(np.diff(moments, axis=1), 0) / 1000  # clocks of several machines may differ a little
        lists, stale, unranked = self._staleness(bucket, versions, times[:, 1])
        return BucketFreshness(
            name,
            join=Spread.of(stages[:, 0]),
            learn=Spread.of(stages[:, 1]),
            publish=Spread.of(stages[:, 2]),
            serve=Spread.of(stages[:, 3]),
            total=Spread.of((moments[:, -1] - moments[:, 0]) / 1000),
            clicks=len(chosen),
            waiting=len(waiting),
            waiting_s=float((now_ms - waiting[:, 1].min()) / 1000) if len(waiting) else 0.0,
            lists=lists,
            stale=stale,
            unranked=unranked,
        )

    def _staleness(
        self, bucket: _Bucket, versions: NDArray[np.int64], published: NDArray[np.int64]
    ) -> tuple[int, float | None, int]:
        """Return how many lists a model has ranked, the stale share of them, and how many none has ranked."""
        shown = np.array(bucket.shown, np.int64).reshape(-1, 2)
        ranked = shown[shown[:, 0] >= 0]
        unranked = len(shown) - len(ranked)
        if not len(ranked):
            return 0, None, unranked
        order = np.argsort(published, kind="stable")
        newest = np.concatenate(([-1], np.maximum.accumulate(versions[order])))
        known = np.searchsorted(published[order], ranked[:, 1] - round(self.tolerance_s * 1000), side="right")
        return len(ranked), float((newest[known] > ranked[:, 0]).mean()), unranked


def number(version: tuple[int, int]) -> int:
    """Return a version as one number that grows with it, below 0 for none.

    >>> number((0, -1)), number((1, 7)) < number((1, 8)) < number((2, 0))
    (-1, True)
    """
    return version[0] * EPOCH + version[1]


def first_served(versions: NDArray[np.int64], first_shown: Mapping[int, int]) -> NDArray[np.int64]:
    """Return for each version when the first list was shown that it or a newer one has ranked, NEVER for none."""
    shown = np.array(sorted(first_shown), np.int64)
    at = np.array([first_shown[int(version)] for version in shown] + [NEVER], np.int64)
    earliest = np.minimum.accumulate(at[::-1])[::-1]
    return earliest[np.searchsorted(shown, versions)]


def first_holding(
    versions: NDArray[np.int64], published: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each sample the index of the snapshot that held it first: LATER when it is still to come, UNKNOWN when
    it may have been one that is gone from the log."""
    holding = np.full(len(offsets), LATER)
    at = np.full(len(offsets), NEVER)
    unknown = np.zeros(len(offsets), bool)
    for epoch in np.unique(versions // EPOCH):
        rows = np.flatnonzero(versions // EPOCH == epoch)
        index = np.searchsorted(versions[rows] % EPOCH, offsets, side="right")
        unknown |= index == 0
        found = np.flatnonzero((index > 0) & (index < len(rows)))
        row = rows[index[found]]
        sooner = published[row] < at[found]
        holding[found[sooner]], at[found[sooner]] = row[sooner], published[row][sooner]
    holding[unknown & (holding == LATER)] = UNKNOWN
    return holding


def _trim(kept: deque[Any], most: int) -> None:
    while len(kept) > most:
        kept.popleft()
