"""C²UCB: every rendered row counts in full, as if each had been examined."""

import numpy as np
from numpy.typing import NDArray

from learner.bandits.linear import LinearBandit, resolved_ridge
from learner.samples import Samples


class FullWeightBandit(LinearBandit):
    """The bandits that give each row they learn from the weight 1, so that φ′ = K."""

    def __init__(
        self,
        dim: int,
        *,
        positions: int,
        alpha: float | None = None,
        ridge: float | str | None = None,
        beta: float | None = None,
        context_scale: float = 1.0,
        reward_scale: float = 1.0,
    ) -> None:
        super().__init__(
            dim,
            positions=positions,
            phi=positions,
            alpha=alpha,
            ridge=resolved_ridge(ridge, positions, positions)[0],
            beta=beta,
            context_scale=context_scale,
            reward_scale=reward_scale,
        )


class C2Ucb(FullWeightBandit):
    """Combinatorial LinUCB: the baseline that knows nothing of positions."""

    name = "c2ucb"

    def _weigh(self, samples: Samples) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64]]:
        return None, np.ones(samples.rows)
