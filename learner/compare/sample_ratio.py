"""Whether the split gives each bucket its share of users: a sequential test of multinomial counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from learner.compare.moments import Floats

CONCENTRATION = 1000.0  # of the Dirichlet prior around the shares: leaks of a percent or so are found soonest


def ratio_evidence(counts: ArrayLike, shares: ArrayLike) -> Floats:
    """Return ln of the evidence against ``shares``, for counts of users (…, buckets), each user counted once.

    It is the likelihood under a Dirichlet prior over that under the shares: a martingale with mean 1 if they hold, so
    the chance that it ever reaches 1 / α is at most α (Ville), looked at after every user (Lindon and Malek, 2020).

    >>> ratio_evidence([[500, 500], [5000, 5600]], [0.5, 0.5]).round(1)
    array([-0.3, 14.3])
    """
    found, share = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if share.ndim != 1 or found.shape[-1:] != share.shape or share.min(initial=1.0) <= 0:
        raise ValueError(f"counts must end with a column per share, all shares above 0; got {found.shape}, {share}")
    share = share / share.sum()
    prior = CONCENTRATION * share
    mixture = (gammaln(prior + found) - gammaln(prior)).sum(axis=-1)
    total = found.sum(axis=-1)
    return np.asarray(
        mixture - gammaln(CONCENTRATION + total) + gammaln(CONCENTRATION) - xlogy(found, share).sum(axis=-1)
    )
