"""Counts of the recent past: two generations, of which the older one is dropped when a third begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPAN_MS = 30 * 60_000
DECADES, PER_DECADE = 8, 40  # of a delay: 0.1 s to four months
FASTEST_S = 0.1


class Recent:
    """Sums of the last 30 to 60 minutes of a log.

    >>> clicks = Recent((2,))
    >>> clicks.at(0)[0] += 1
    >>> clicks.at(SPAN_MS)[0] += 1
    >>> clicks.total().tolist(), clicks.since_ms
    ([2.0, 0.0], 0)
    >>> _ = clicks.at(2 * SPAN_MS)
    >>> clicks.total().tolist(), clicks.since_ms == SPAN_MS, clicks.at(0)
    ([1.0, 0.0], True, None)
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._generation: int | None = None
        self._now, self._before = np.zeros(shape), np.zeros(shape)
        self.since_ms = 0

    def at(self, time_ms: int) -> NDArray[np.float64] | None:
        """Return the sums to add to at a time, None when its time is gone."""
        generation = time_ms // SPAN_MS
        if self._generation is None:
            self._generation, self.since_ms = generation, time_ms
        elif generation > self._generation:
            follows = generation == self._generation + 1
            self._before = self._now if follows else np.zeros_like(self._now)
            self.since_ms = max(self.since_ms, (generation - follows) * SPAN_MS)
            self._now = np.zeros_like(self._now)
            self._generation = generation
        if generation < self._generation - 1:
            return None
        self.since_ms = min(self.since_ms, time_ms)
        return self._now if generation == self._generation else self._before

    def total(self) -> NDArray[np.float64]:
        """Return the sums of both generations."""
        return np.asarray(self._now + self._before)


class DelayHistogram(Recent):
    """Counts of delays, forty bins to a decade from 0.1 s on; the first bin takes what is faster."""

    def __init__(self) -> None:
        super().__init__((DECADES * PER_DECADE,))

    def add(self, time_ms: int, seconds: NDArray[Any], weight: float = 1.0) -> None:
        """Count delays that were seen at a time, unless that is gone."""
        sums = self.at(time_ms)
        if sums is not None:
            decades = np.log10(np.maximum(seconds, FASTEST_S) / FASTEST_S)
            bins = np.minimum(decades * PER_DECADE, len(sums) - 1).astype(np.int64)
            sums += np.bincount(bins, minlength=len(sums)) * weight


def quantile_s(histogram: NDArray[Any], share: float) -> float | None:
    """Return the delay in seconds below which ``share`` of a histogram lies, None when it is empty.

    >>> delays = DelayHistogram()
    >>> delays.add(0, np.array([10.0, 10.0, 10.0, 1000.0]))
    >>> round(quantile_s(delays.total(), 0.75), 1), quantile_s(np.zeros(9), 0.5)
    (10.6, None)
    """
    total = histogram.sum()
    if total <= 0:
        return None
    below = np.cumsum(histogram)
    cell = min(int(np.searchsorted(below, share * total)), len(histogram) - 1)
    within = (share * total - (below[cell] - histogram[cell])) / max(histogram[cell], 1e-9)
    return float(FASTEST_S * 10 ** ((cell + min(max(within, 0.0), 1.0)) / PER_DECADE))
