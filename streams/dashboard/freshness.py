"""How fast a click comes back as a better list (pure).

The loop of one click: it is joined into a sample, learned, published in a snapshot, and then the first list is shown
that this or a newer snapshot has ranked. Records may come in any order: a topic may be read before another. What a list
says about its version is believed only as far as the snapshots bear it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import SampleBatch
from streams.dashboard.hash_sample import HashSample, Rows
from streams.dashboard.rounding import short
from streams.dashboard.served import LATER, NEVER, FirstShown, Ints, Known, first_holding, first_served

WINDOW_MS = 3_600_000  # what is told is of the newest hour
EVERY_S, EVERY_BUCKETS = 5.0, 10  # between two measurements; with so many more buckets, so much more time
TIMES = 16  # of one list's clicks that are remembered


class Spread(NamedTuple):
    """A distribution of seconds in three numbers."""

    p50: float
    p95: float
    max: float


def spread(seconds: NDArray[np.float64]) -> Spread | None:
    """Return the spread of some seconds, None of none.

    >>> spread(np.array([3.0, 1.0, 2.0]))
    Spread(p50=2.0, p95=2.9, max=3.0)
    """
    return Spread(*np.quantile(seconds, (0.5, 0.95, 1.0)).tolist()) if len(seconds) else None


@dataclass(frozen=True, slots=True)
class BucketFreshness:
    """How fresh one bucket's lists are; each spread is in seconds, over clicks whose loop has closed of late."""

    bucket: str
    join: Spread | None  # click -> written as a sample
    learn: Spread | None  # sample -> learned
    publish: Spread | None  # learned -> published
    serve: Spread | None  # published -> first list ranked by it
    total: Spread | None  # click -> first list
    clicks: int  # clicked lists that the spreads are over
    waiting: int  # clicked lists that are joined, and not served yet
    waiting_s: float  # the longest of those waits, since the click
    lists: int  # lists shown that a known model has ranked
    stale: float | None  # share of them for which a newer snapshot had been published for longer than the tolerance
    unranked: int  # lists shown without a model's version
    share: float = 1.0  # of the clicks, those that are followed


@dataclass(slots=True)
class _Bucket:
    clicked: Rows  # sample offset, clicked at, joined at
    snapshots: Rows  # epoch, offset, learned at, published at
    shown: Rows  # epoch, offset, shown at
    first_shown: FirstShown
    unranked: Rows = field(default_factory=lambda: Rows(1, 1000))  # shown at


class Freshness:
    """Follows clicks around the loop; a click waits ``keep_s`` for its sample.

    As clocks differ, a list may be shown up to ``tolerance_s`` before the snapshot that ranked it was published, and is
    not stale that long after a newer one. Of more than ``most`` clicks, lists or snapshots an even share is followed.
    """

    def __init__(self, *, keep_s: float = 1500.0, tolerance_s: float = 10.0, most: int = 20_000) -> None:
        self.keep_ms, self.tolerance_ms, self.most = round(keep_s * 1000), round(tolerance_s * 1000), most
        self._followed = HashSample(most)
        self._clicks: dict[str, list[int]] = {}
        self._buckets: defaultdict[str, _Bucket] = defaultdict(self._bucket)
        self._gaps: list[tuple[int, int]] = []
        self._since_ms: int | None = None
        self.rows: dict[str, list[Any]] = {}  # for the page, by bucket; measured now and then
        self.about = {"since": 0, "share": short(1.0), "tolerance_s": tolerance_s}  # what the rows rest on
        self._measured_at: tuple[float, float] | None = None  # log time and wall time, in seconds
        self._news = False

    def _bucket(self) -> _Bucket:
        return _Bucket(Rows(3, self.most), Rows(4, self.most), Rows(3, self.most // 4), FirstShown(self.most))

    @property
    def share(self) -> float:
        """The share of clicks that are followed."""
        return self._followed.share

    def since_ms(self, now_ms: int) -> int:
        """Return from when on clicks could be followed all the way."""
        return max(now_ms - WINDOW_MS, self._since_ms or 0)

    def read_from(self, at_ms: int) -> None:
        """Note that impressions were read from a time on; of several times the earliest counts.

        A snapshot that was published before may have been used by a list that was not read.
        """
        self._since_ms = at_ms if self._since_ms is None else min(self._since_ms, at_ms)

    def add_gap(self, start_ms: int, end_ms: int) -> None:
        """Note that impressions between two times were passed over; later than the gaps before."""
        if self._gaps and self._gaps[-1][1] >= start_ms:
            start_ms, end_ms = self._gaps[-1][0], max(self._gaps.pop()[1], end_ms)
        self._gaps.append((start_ms, end_ms))

    def add_click(self, impression_id: str, clicked_at_ms: int) -> None:
        """Note a click; it is measured when its list comes as a sample."""
        if self._followed.follows(impression_id):
            times = self._clicks.setdefault(impression_id, [])
            times.append(clicked_at_ms)
            del times[:-TIMES]
            if len(self._clicks) > self.most:
                self._followed.fit(self._clicks)

    def add_samples(self, batch: SampleBatch, *, offset: int, at_ms: int) -> None:
        """Note a record of the samples topic with its offset and time stamp; its clicks must have been noted before."""
        bucket = self._buckets[batch.bucket]
        ends = np.cumsum(batch.sizes_array, dtype=np.int64)
        best = np.maximum.reduceat(batch.rewards_array, ends - batch.sizes_array) if len(ends) else np.zeros(0)
        for index in np.flatnonzero((best > 0) & (batch.signs_array > 0)):
            before = [at for at in self._clicks.get(batch.impression_ids[index], ()) if at <= at_ms]
            if before:
                bucket.clicked.add(offset, max(before), at_ms)

    def add_snapshot(self, bucket: str, version: tuple[int, int], *, learned_at_ms: int, published_at_ms: int) -> None:
        """Note a snapshot: when its state was taken, and the time stamp of its record."""
        self._buckets[bucket].snapshots.add(*version, learned_at_ms, published_at_ms)

    def add_impression(self, bucket: str, ranked_by: tuple[int, int], shown_at_ms: int) -> None:
        """Note a list that was shown, and which version had ranked it; (0, -1) for none."""
        state = self._buckets[bucket]
        if ranked_by[0] <= 0 and ranked_by[1] < 0:
            state.unranked.add(shown_at_ms)
        else:
            state.shown.add(*ranked_by, shown_at_ms)
            state.first_shown.new.append((*ranked_by, shown_at_ms))
            if len(state.first_shown.new) > self.most:
                self._settle(state)

    def forget(self, now_ms: int) -> None:
        """Let go of clicks whose sample will not come any more, and of gaps that nobody looks at."""
        before_ms = now_ms - self.keep_ms
        while self._clicks and next(iter(self._clicks.values()))[-1] < before_ms:
            del self._clicks[next(iter(self._clicks))]
        self._followed.fit(self._clicks)
        while self._gaps and self._gaps[0][1] < now_ms - 2 * WINDOW_MS:
            del self._gaps[0]

    def measure(self, now_ms: int, *, wall_s: float, behind: bool, known: Container[str], news: bool) -> None:
        """Bring the rows up to date, unless history is still being read or that was done a moment ago.

        An archive's time stands still at its end, and a quiet log has no ``news``: so either clock may ask for it.
        """
        self.forget(now_ms)
        now_s, self._news = now_ms / 1000, self._news or news
        if self._measured_at is not None:
            passed = now_s - self._measured_at[0], (wall_s - self._measured_at[1]) * self._news
            if max(passed) < EVERY_S * (1 + len(self.rows) / EVERY_BUCKETS):
                return
        if behind:
            return
        self._measured_at, self._news = (now_s, wall_s), False
        buckets = self.buckets(now_ms, known)
        share = min((fresh.share for fresh in buckets.values()), default=self.share)
        since = round(self.since_ms(now_ms), -4)  # every 10 s is news enough
        self.about |= {"since": since, "share": short(share)}
        self.rows = {
            name: row(fresh)
            for name, fresh in buckets.items()
            if fresh.lists or fresh.clicks or fresh.waiting or fresh.unranked
        }

    def buckets(self, now_ms: int, known: Container[str] | None = None) -> dict[str, BucketFreshness]:
        """Return how fresh each bucket is; buckets that are not ``known`` are forgotten."""
        self.forget(now_ms)
        for name in [name for name in self._buckets if known is not None and name not in known]:
            del self._buckets[name]
        return {name: self._of_bucket(name, bucket, now_ms) for name, bucket in sorted(self._buckets.items())}

    def _settle(self, bucket: _Bucket) -> Known:
        """Sort what the bucket's lists say about their versions: believed, not to be believed, or perhaps later."""
        known = Known.of(bucket.snapshots.array(), self.tolerance_ms)
        new = np.array(bucket.first_shown.new, np.int64).reshape(-1, 3)
        bucket.first_shown.take(new[known.bears_out(new)])
        later = new[known.is_before(new)][-self.most // 4 :]
        bucket.first_shown.new = [tuple(row) for row in later.tolist()]
        return known

    def _of_bucket(self, name: str, bucket: _Bucket, now_ms: int) -> BucketFreshness:
        _cut(bucket, now_ms - WINDOW_MS)
        known = self._settle(bucket)
        versions, times, published = known.versions, known.times, known.times[:, 1]
        clicked = bucket.clicked.array()
        served = first_served(versions, known.numbered(bucket.first_shown.rows))
        first = first_holding(versions, published, clicked[:, 0])
        held, whole = first >= 0, self._without_gap(published, served)
        followed = held.copy()
        followed[held] = whole[first[held]]
        closed = followed.copy()
        closed[followed] = served[first[followed]] < NEVER
        shown = bucket.shown.array()
        ranked = known.numbered(shown[known.bears_out(shown)])
        unranked = bucket.unranked.array()
        told = len(shown) > 0 or not len(unranked)  # when lists come without versions, who uses a snapshot is not known
        waiting = clicked[(first == LATER) | (followed & ~closed & told)]
        chosen, at = clicked[closed], first[closed]
        moments = np.column_stack([chosen[:, 1:], times[at], served[at]])
        stages = np.maximum(np.diff(moments, axis=1), 0) / 1000  # clocks of several machines may differ a little
        join, learn, publish, serve = (spread(seconds) for seconds in stages.T)
        return BucketFreshness(
            name,
            join,
            learn,
            publish,
            serve,
            total=spread(np.maximum(moments[:, -1] - moments[:, 0], 0) / 1000),
            clicks=len(chosen),
            waiting=len(waiting),
            waiting_s=float((now_ms - waiting[:, 1].min()) / 1000) if len(waiting) else 0.0,
            lists=round(len(ranked) / bucket.shown.share),
            stale=self._stale(ranked, versions, published),
            unranked=round(len(unranked) / bucket.unranked.share),
            share=self.share * bucket.clicked.share,
        )

    def _without_gap(self, published: Ints, served: Ints) -> NDArray[np.bool_]:
        """Return for each snapshot whether every list was read from its publication to its first use."""
        gaps = np.array([*self._gaps, (NEVER, NEVER)], np.int64)
        following = gaps[np.minimum(np.searchsorted(gaps[:, 1], published, side="right"), len(gaps) - 1)]
        return np.asarray((following[:, 0] >= served) & (published >= (self._since_ms or 0)))

    def _stale(self, ranked: Ints, versions: Ints, published: Ints) -> float | None:
        """Return the share of lists for which a newer snapshot was out; None when none was known before any of them."""
        order = np.argsort(published, kind="stable")
        newest = np.concatenate(([-1], np.maximum.accumulate(versions[order])))
        out = np.searchsorted(published[order], ranked[:, 1] - self.tolerance_ms, side="right")
        judged = out > 0
        return float((newest[out] > ranked[:, 0])[judged].mean()) if judged.any() else None


def _cut(bucket: _Bucket, before_ms: int) -> None:
    """Drop what lies before a time, but for the snapshot that was the newest then."""
    bucket.clicked.keep(bucket.clicked.array()[:, 2] >= before_ms)
    bucket.shown.keep(bucket.shown.array()[:, 2] >= before_ms)
    bucket.unranked.keep(bucket.unranked.array()[:, 0] >= before_ms)
    bucket.first_shown.rows = bucket.first_shown.rows[bucket.first_shown.rows[:, 2] >= before_ms]
    published = bucket.snapshots.array()[:, 3]
    kept = published >= before_ms
    if not kept.all():
        kept |= published == published[~kept].max()
        bucket.snapshots.keep(kept)


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
