"""Whether one bucket loses more of its clicks than the others, which would fake a lift of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.compare.lift import half_width
from learner.compare.moments import Floats, RatioMoments

SCALE = 0.005  # gaps of half a percent are found soonest
TOLERATED = 0.002  # a gap that no lift worth deciding on would notice
EXPECTED = 10  # losses that a bucket must be due before it is judged: with fewer, no bell curve fits


@dataclass(frozen=True, slots=True)
class LossGap:
    """How much larger the share of lost clicks is than in the other buckets together, over time."""

    rate: Floats
    others: Floats
    low: Floats
    high: Floats

    @property
    def alarm(self) -> NDArray[np.bool_]:
        """Where the bucket loses more than the others beyond doubt and tolerance."""
        return self.low > TOLERATED


def loss_gaps(buckets: Sequence[RatioMoments], *, alpha: float) -> list[LossGap]:
    """Return each bucket's gap; the moments' size is clicks, their total those lost. One is wrong with ``alpha``.

    The spread of losses is taken from all buckets together: one without any loss would have none of its own.
    """
    everything = RatioMoments.added(buckets)
    gaps = []
    for one in buckets:
        clicks, lost = everything.size - one.size, everything.total - one.total
        others = np.divide(lost, clicks, out=np.zeros(np.shape(clicks)), where=clicks > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = everything.spread / everything.size * (1 / one.size + 1 / clicks)
        known = (np.minimum(one.size, clicks) * everything.rate >= EXPECTED) & np.isfinite(variance) & (variance > 0)
        wide = half_width(np.where(known, variance, 1.0), alpha=alpha / len(buckets), scale=SCALE)
        gap = one.rate - others
        low, high = np.where(known, gap - wide, -1.0), np.where(known, gap + wide, 1.0)
        gaps.append(LossGap(one.rate, others, low, high))
    return gaps
