"""CM-LinUCB: the cascade model reads from the top and stops at the first click."""

import numpy as np

from learner.arrays import Bools, Floats
from learner.bandits.c2ucb import FullWeightBandit
from learner.samples import Samples


class CmLinUcb(FullWeightBandit):
    """Learns from the rows up to and including the first click, from all when there is none."""

    name = "cm-linucb"

    def _weigh(self, samples: Samples) -> tuple[Bools | None, Floats]:
        rows = samples.last_click == 0  # no click above: this row was read, the first click's own row included
        return rows, np.ones(np.count_nonzero(rows))
