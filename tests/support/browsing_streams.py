"""Lists of users whose way of browsing is known, and changes."""

import numpy as np

from learner.simulate import answer, browsing_table
from streams.advise import ListColumns

K, ITEMS = 8, 300
UBM_TABLE = browsing_table(K)
CM_TABLE = np.zeros((K, K))
CM_TABLE[:, 0] = 1.0


class Browsers:
    """Users of one taste; every call shows them new lists."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.attractiveness = self.rng.beta(1.5, 6, ITEMS)

    def lists(self, many, table):
        """Return lists and clicks of users who browse by ``table``, some shorter than K."""
        start, stride = self.rng.integers(ITEMS, size=(many, 1)), self.rng.choice([1, 7, 11, 13], size=(many, 1))
        items = (start + stride * np.arange(K)) % ITEMS
        sizes = np.where(self.rng.random(many) < 0.1, K - 2, K)
        clicks = (answer(self.attractiveness[items], table, self.rng).clicks > 0) & (np.arange(K) < sizes[:, None])
        return ListColumns(items, clicks, sizes)
