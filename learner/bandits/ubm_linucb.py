"""UBM-LinUCB, the paper's Algorithm 1: every rendered row, weighted by the chance that it was examined."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Bools, Floats
from learner.bandits.linear import LinearBandit, Scales, resolved_ridge
from learner.bandits.theorem import safe_weight_bound, weight_bound
from learner.browsing import checked_table, table_hash
from learner.samples import Samples


class UbmLinUcb(LinearBandit):
    """Linear model of attractiveness, learned from clicks seen with known probability.

    Parameters
    ----------
    dim
        Length of a feature vector.
    examination
        w[k − 1, k′], K×K: the chance that position k is examined when the last click above it was at k′ (0 = none).
    alpha
        Width of the confidence bound; None grows it as the theorem says, 0 ranks by the estimate alone.
    ridge
        λ; None takes the paper's max(1, φ′), ``"safe"`` a value that needs no order of w.
    beta
        The theorem's bound on ‖θ*‖²; None takes d.
    context_scale, reward_scale
        Features and rewards are divided by these; then each |xⱼ| ≤ 1 and 0 ≤ reward ≤ 1 must hold.

    Examples
    --------
    >>> model = UbmLinUcb(dim=2, examination=np.array([[1.0, 0.0], [0.5, 1.0]]), alpha=0, ridge=1)
    >>> shown = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> model.learn(Samples.from_clicks(shown, np.array([[0.0, 1.0]])))
    >>> model.predict(shown[0])
    array([0. , 0.4])
    """

    name = "ubm-linucb"
    options = ("dim", "examination", "alpha", "ridge", "beta", "context_scale", "reward_scale")
    table_axes = 2

    def __init__(
        self, dim: int, *, examination: ArrayLike, ridge: float | str | None = None, **scales: Unpack[Scales]
    ) -> None:
        self.examination = checked_table(examination)  # w
        self.examination_sha256 = table_hash(self.examination)
        # w once more as k·K + k′, flat and without the − 1: take() is several times faster than an index pair
        self._cells = np.concatenate((np.zeros(len(self.examination)), self.examination.ravel()))
        value, phi = resolved_ridge(ridge, weight_bound(self.examination), safe_weight_bound(self.examination))
        super().__init__(dim, positions=len(self.examination), phi=phi, ridge=value, **scales)

    def _weigh(self, samples: Samples) -> tuple[Bools | None, Floats]:
        return None, self._cells.take(samples.position * self.positions + samples.last_click)
