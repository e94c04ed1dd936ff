"""CCM: the user reads from the top, and goes on more or less likely after an item that was clicked and good."""

from typing import ClassVar

import numpy as np

from learner.arrays import Floats, Ints
from learner.click_models.prior import LAPLACE, Beta
from learner.click_models.reading import Reading, ReadingModel, per_pair


class CCM(ReadingModel):
    """The click chain model of Guo et al. (2009), by EM.

    The user goes on with the chance α₁ after a row without a click, and after a click with α₃ if the item was as good
    as it looked, which has its attractiveness as chance, and α₂ if not. ``continuation`` is (α₁, α₂, α₃).

    Examples
    --------
    >>> model = CCM(iterations=20).fit([[1, 2], [2, 1], [1, 2]], [[1, 0], [0, 1], [1, 1]])
    >>> model.continuation.shape
    (3,)
    """

    quick_steps: ClassVar[int] = 10
    continuation: Floats

    @property
    def _after_none(self) -> float:
        return float(self.continuation[0])

    def _after_click(self, pair: Ints) -> Floats:
        good = self._attracted(pair)
        return np.asarray(self.continuation[1] * (1 - good) + self.continuation[2] * good)

    def _begin(self, pairs: int, positions: int) -> None:
        self.continuation = np.array([0.9, 0.6, 0.3])
        self._good = np.zeros(pairs), np.zeros(pairs)  # clicked rows that were good, and all of them

    def _attraction(self, reading: Reading, pairs: int, *, prior_too: bool) -> Floats:
        clicked, read = per_pair(reading.pair, reading.clicked, pairs), per_pair(reading.pair, reading.read, pairs)
        good, asked = self._good  # these tell of the same chance
        if prior_too:
            self._prior = Beta.learned(clicked, read)
        return self._prior.share(clicked + good, read + asked)

    def _browse(self, reading: Reading, pairs: int, *, prior_too: bool) -> None:
        good = self._attracted(reading.pair)
        clicked = reading.clicked * reading.told
        on, off = reading.clicked * reading.stayed, clicked - reading.clicked * reading.stayed
        goes = self._after_click(reading.pair)
        among_on = np.divide(good * self.continuation[2], goes, out=np.zeros(goes.shape), where=goes > 0)
        among_off = np.divide(good * (1 - self.continuation[2]), 1 - goes, out=np.zeros(goes.shape), where=goes < 1)
        stayed_good, left_good = (on * among_on).sum(), (off * among_off).sum()
        stayed_bad, left_bad = on.sum() - stayed_good, off.sum() - left_good
        silent = (1 - reading.clicked) * reading.told
        passed, read = (silent * reading.stayed).sum(), (silent * reading.read).sum()
        both = (
            np.array([passed, stayed_bad, stayed_good]),
            np.array([read, stayed_bad + left_bad, stayed_good + left_good]),
        )
        self.continuation = LAPLACE.share(*both)
        self._good = (
            per_pair(reading.pair, on * among_on + off * among_off, pairs),
            per_pair(reading.pair, clicked, pairs),
        )
