"""The page as threads share it, and messages to browsers: each is sent only the sections that it does not have yet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.dashboard.page import Page
from streams.dashboard.sections import sections
from streams.dashboard.timeline import Timeline
from streams.settings import Settings

BY_ROW = ("snapshots", "letters", "partitions", "fresh")  # tables of which only changed rows travel


class State(Page):
    """A page that one thread feeds and any number of others read."""

    def __init__(
        self, settings: Settings, *, source_name: str, consumers: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(settings, source_name=source_name, consumers=consumers, clock=clock, lock=Lock())


class Feed:
    """What one browser has been sent so far; a message holds the sections, rows and bins that have changed since."""

    def __init__(self, window: str = "", bucket: str = "") -> None:
        self.window, self.bucket = window, bucket
        self._sent: dict[str, Any] = {}

    def message(self, state: State) -> str:
        """Return the news as JSON, never empty: the time is always in it."""
        with state.lock:
            news = {
                name: self._news(name, section) for name, section in sections(state, self.window, self.bucket).items()
            }
        news = {name: changed for name, changed in news.items() if changed is not None}
        return json.dumps(news, separators=(",", ":"), allow_nan=False)

    def _news(self, name: str, section: Any) -> Any:
        if isinstance(section, Timeline):
            return self._bins(name, section)
        new, before = name not in self._sent, self._sent.get(name, {})
        self._sent[name] = section
        if name not in BY_ROW:
            return {"is": section} if new or before != section else None
        if new:
            return {"set": section}
        changed = {key: row for key, row in section.items() if before.get(key) != row}
        gone = [key for key in before if key not in section]
        return {"set": changed, "gone": gone} if changed or gone else None

    def _bins(self, name: str, timeline: Timeline) -> dict[str, Any] | None:
        """Return the bins that changed, as [bin, columns × fields]; all that hold anything after a change of width."""
        before: tuple[int, int, NDArray[np.int64]] | None = self._sent.get(name)
        values = np.rint(np.maximum(timeline.values, 0.0)).astype(np.int64)  # below 0: taken back, and never read
        self._sent[name] = timeline.width_ms, timeline.start, values
        known = np.zeros_like(values)
        fresh = before is None or before[0] != timeline.width_ms
        if before is not None and not fresh:
            shift = timeline.start - before[1]
            old = before[2][max(shift, 0) : len(values) + min(shift, 0)]
            at = max(-shift, 0)
            known[at : at + len(old), : old.shape[1]] = old
        changed = np.flatnonzero((values != known).any(axis=(1, 2)))
        if not fresh and not len(changed):
            return None
        bins = [[timeline.start + int(number), values[number].reshape(-1).tolist()] for number in changed]
        return {"width": timeline.width_ms, "count": timeline.bins, "fields": values.shape[2], "bins": bins} | (
            {"new": True} if fresh else {}
        )
