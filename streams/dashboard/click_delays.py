"""The time between impressions and their clicks, from a fair sample of lists that fits in memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from schemas.records import Click, Impression
from streams.dashboard.hash_sample import HashSample
from streams.dashboard.recent import DECADES, PER_DECADE, Recent, delay_bins

MOST = 20_000  # lists, and clicks without a list, that are remembered


class ClickDelays:
    """Matches clicks with their lists, whichever comes first.

    When there are too many within the horizon, an even share of the lists is followed, so that slow clicks stay as
    likely to be matched as fast ones.
    """

    def __init__(self, horizon_s: float) -> None:
        self.horizon_ms = int(horizon_s * 1000)
        self.delays: dict[str, Recent] = {}  # by bucket
        self._followed = HashSample(MOST)
        self._shown: dict[str, tuple[int, str]] = {}  # id -> shown at, bucket
        self._clicked: dict[str, tuple[int, list[int]]] = {}  # id -> first click at, all clicks

    @property
    def kept_share(self) -> float:
        """The share of lists that are followed."""
        return self._followed.share

    def add(self, shown: Iterable[Impression], clicked: Iterable[Click], *, now_ms: int) -> None:
        """Note events that were read; repeated impressions count once, repeated clicks each time."""
        found: dict[str, list[int]] = {}
        for impression in shown:
            name = impression.impression_id
            if name in self._shown or not self._followed.follows(name):
                continue
            self._shown[name] = impression.shown_at_ms, impression.bucket
            if name in self._clicked:
                _, times = self._clicked.pop(name)
                found.setdefault(impression.bucket, []).extend(at - impression.shown_at_ms for at in times)
        for click in clicked:
            name = click.impression_id
            if not self._followed.follows(name):
                continue
            if name in self._shown:
                shown_at_ms, bucket = self._shown[name]
                found.setdefault(bucket, []).append(click.clicked_at_ms - shown_at_ms)
            else:
                self._clicked.setdefault(name, (click.clicked_at_ms, []))[1].append(click.clicked_at_ms)
        for bucket, delays in found.items():
            recent = self.delays.setdefault(bucket, Recent((DECADES * PER_DECADE,)))
            bins = delay_bins(np.array(delays) / 1000)
            recent.add(now_ms, np.bincount(bins, minlength=DECADES * PER_DECADE))
        self._forget(now_ms - self.horizon_ms)

    def _forget(self, before_ms: int) -> None:
        for kept in (self._shown, self._clicked):
            while kept and next(iter(kept.values()))[0] < before_ms:
                del kept[next(iter(kept))]
        self._followed.fit(self._shown, self._clicked)
