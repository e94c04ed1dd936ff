"""Checks of what would fake a lift: a bucket that loses more clicks than the others, a split that leaks users."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from learner.compare.lift import half_width
from learner.compare.moments import Floats, RatioMoments

SCALE = 0.005  # gaps of half a percent are found soonest
TOLERATED = 0.002  # a gap that no lift worth deciding on would notice
CONCENTRATION = 1000.0  # of the Dirichlet prior around the shares: leaks of a percent or so are found soonest
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
    for bucket in buckets:
        clicks, lost = everything.size - bucket.size, everything.total - bucket.total
        others = np.divide(lost, clicks, out=np.zeros(np.shape(clicks)), where=clicks > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = everything.spread / everything.size * (1 / bucket.size + 1 / clicks)
        known = (np.minimum(bucket.size, clicks) * everything.rate >= EXPECTED) & np.isfinite(variance) & (variance > 0)
        wide = half_width(np.where(known, variance, 1.0), alpha=alpha / len(buckets), scale=SCALE)
        gap = bucket.rate - others
        low, high = np.where(known, gap - wide, -1.0), np.where(known, gap + wide, 1.0)
        gaps.append(LossGap(bucket.rate, others, low, high))
    return gaps


def ratio_evidence(counts: ArrayLike, shares: ArrayLike) -> Floats:
    """Return ln of the evidence against ``shares``, for counts of users (…, buckets), each user counted once.

    It is the likelihood under a Dirichlet prior over that under the shares: a martingale with mean 1 if they hold, so
    the chance that it ever reaches 1 / α is at most α (Ville), looked at after every user (Lindon and Malek, 2020).

    >>> ratio_evidence([[500, 500], [5000, 5600]], [0.5, 0.5]).round(1)
    array([-0.3, 14.3])
    """
    users, share = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if share.ndim != 1 or users.shape[-1:] != share.shape or share.min(initial=1.0) <= 0:
        raise ValueError(f"counts must end with a column per share, all shares above 0; got {users.shape}, {share}")
    share = share / share.sum()
    prior = CONCENTRATION * share
    mixture = (gammaln(prior + users) - gammaln(prior)).sum(axis=-1)
    total = users.sum(axis=-1)
    return np.asarray(
        mixture - gammaln(CONCENTRATION + total) + gammaln(CONCENTRATION) - xlogy(users, share).sum(axis=-1)
    )
