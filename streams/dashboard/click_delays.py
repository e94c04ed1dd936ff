"""The time between impressions and their clicks, from a fair sample of lists that fits in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from schemas.records import Click, Impression
from streams.dashboard.hash_sample import HashSample
from streams.dashboard.recent import DelayHistogram
from streams.events import ShownList, first_click_delay_ms

MOST = 20_000  # lists, and clicks without a list, that are remembered


class ClickDelays:
    """Matches clicks with their lists, whichever comes first.

    When there are too many within the horizon, an even share of the lists is followed, so that slow clicks stay as
    likely to be matched as fast ones.
    """

    def __init__(self, horizon_s: float) -> None:
        self.horizon_ms = int(horizon_s * 1000)
        self.delays: defaultdict[str, DelayHistogram] = defaultdict(DelayHistogram)  # by bucket
        self.followed = HashSample(MOST)
        self._shown: dict[str, ShownList] = {}
        self._early: dict[str, list[Click]] = {}  # clicks whose list has not come

    def add(self, shown: Iterable[Impression], clicked: Iterable[Click], *, now_ms: int) -> None:
        """Note events that were read; repeated ones count once."""
        clicks: list[Click] = []
        for impression in shown:
            name = impression.impression_id
            if name not in self._shown and self.followed.follows(name):
                self._shown[name] = ShownList(impression.shown_at_ms, impression.bucket)
                clicks += self._early.pop(name, ())
        first_clicks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # when shown and clicked, by bucket
        for click in (*clicks, *clicked):
            name = click.impression_id
            if name in self._shown:
                of = self._shown[name]
                if of.is_first_click(click.position):
                    first_clicks[of.bucket].append((of.shown_at_ms, click.clicked_at_ms))
            elif self.followed.follows(name):
                self._early.setdefault(name, []).append(click)
        for bucket, times_ms in first_clicks.items():
            self.delays[bucket].add(now_ms, first_click_delay_ms(*zip(*times_ms, strict=True)) / 1000)
        before_ms = now_ms - self.horizon_ms
        while self._shown and next(iter(self._shown.values())).shown_at_ms < before_ms:
            del self._shown[next(iter(self._shown))]
        while self._early and next(iter(self._early.values()))[0].clicked_at_ms < before_ms:
            del self._early[next(iter(self._early))]
        self.followed.fit(self._shown, self._early)
