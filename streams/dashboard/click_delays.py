"""Impressions and clicks in, the time between them out: from a fair sample of lists that fits in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np

from schemas.records import Click, Impression
from streams.dashboard.recent import DECADES, PER_DECADE, Recent, delay_bins

MOST = 20_000  # lists, and clicks without a list, that are remembered


class ClickDelays:
    """Matches clicks with their lists, whichever comes first.

    Ids are kept by their hash: when there are too many within the horizon, only every second one is kept on, so that
    slow clicks stay as likely to be matched as fast ones.
    """

    def __init__(self, horizon_s: float) -> None:
        self.horizon_ms = int(horizon_s * 1000)
        self.delays: dict[str, Recent] = {}  # by bucket
        self._mask = 0
        self._shown: OrderedDict[str, tuple[int, str]] = OrderedDict()  # id -> shown at, bucket
        self._clicked: OrderedDict[str, tuple[int, list[int]]] = OrderedDict()  # id -> first click at, all clicks

    @property
    def kept_share(self) -> float:
        """The share of lists that are followed."""
        return 1 / (self._mask + 1)

    def add(self, shown: Iterable[Impression], clicked: Iterable[Click], *, now_ms: int) -> None:
        """Note events that were read; repeated impressions count once, repeated clicks each time."""
        found: dict[str, list[int]] = {}
        for impression in shown:
            name = impression.impression_id
            if hash(name) & self._mask or name in self._shown:
                continue
            self._shown[name] = impression.shown_at_ms, impression.bucket
            if name in self._clicked:
                _, times = self._clicked.pop(name)
                found.setdefault(impression.bucket, []).extend(at - impression.shown_at_ms for at in times)
        for click in clicked:
            name = click.impression_id
            if hash(name) & self._mask:
                continue
            if name in self._shown:
                shown_at_ms, bucket = self._shown[name]
                found.setdefault(bucket, []).append(click.clicked_at_ms - shown_at_ms)
            else:
                self._clicked.setdefault(name, (click.clicked_at_ms, []))[1].append(click.clicked_at_ms)
        for bucket, delays in found.items():
            recent = self.delays.setdefault(bucket, Recent((DECADES * PER_DECADE,)))
            bins = delay_bins(np.array(delays) / 1000)
            recent.at(now_ms)[:] += np.bincount(bins, minlength=DECADES * PER_DECADE)
        self._forget(now_ms - self.horizon_ms)

    def _forget(self, before_ms: int) -> None:
        for kept in (self._shown, self._clicked):
            while kept and next(iter(kept.values()))[0] < before_ms:
                kept.popitem(last=False)
        while len(self._shown) > MOST or len(self._clicked) > MOST:
            self._mask = self._mask * 2 + 1
            for names in (self._shown, self._clicked):
                for name in [name for name in names if hash(name) & self._mask]:
                    del names[name]
