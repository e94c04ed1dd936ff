"""C²UCB: every rendered row counts in full, as if each had been examined."""

from typing import Unpack

import numpy as np

from learner.arrays import Bools, Floats
from learner.bandits.linear import LinearBandit, Scales, resolved_ridge
from learner.samples import Samples


class FullWeightBandit(LinearBandit):
    """The bandits that give each row they learn from the weight 1, so that φ′ = K."""

    def __init__(self, dim: int, *, positions: int, ridge: float | str | None = None, **scales: Unpack[Scales]) -> None:
        value, phi = resolved_ridge(ridge, positions, positions)
        super().__init__(dim, positions=positions, phi=phi, ridge=value, **scales)


class C2Ucb(FullWeightBandit):
    """Combinatorial LinUCB: the baseline that knows nothing of positions."""

    name = "c2ucb"

    def _weigh(self, samples: Samples) -> tuple[Bools | None, Floats]:
        return None, np.ones(samples.rows)
