"""CM-LinUCB: the cascade model reads from the top and stops at the first click."""

import numpy as np
from numpy.typing import NDArray

from learner.bandits.c2ucb import FullWeightBandit
from learner.samples import Samples


class CmLinUcb(FullWeightBandit):
    """Learns from the rows up to and including the first click, from all when there is none."""

    name = "cm-linucb"

    def _weigh(self, samples: Samples) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64]]:
        rows = samples.last_click == 0  # no click above: this row was read, the first click's own row included
        return rows, np.ones(np.count_nonzero(rows))
