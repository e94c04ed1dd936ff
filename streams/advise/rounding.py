"""What rounding to the exact grid takes from contexts, by the scale that they are divided by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GRID = 2.0**16  # as in learner.exact: z = rint(2¹⁶ w x / context_scale)
ROOM = 1.25  # of an advised scale over the largest feature seen
WORTH = 0.001  # a loss of a thousandth of the length of a context is worth a new epoch


class RoundingLoss:
    """Adds up the error of rounding over the rows of one bucket.

    >>> loss = RoundingLoss(1000.0)
    >>> loss.add(np.full((5, 2), 0.01, np.float32), np.ones(5))
    >>> round(loss.relative, 3), loss.advised_scale
    (0.526, 0.0125)
    """

    def __init__(self, context_scale: float) -> None:
        self.context_scale = context_scale
        self.rows = 0
        self.largest = 0.0
        self._length = self._error = 0.0  # sums of squares

    def add(self, contexts: NDArray[np.float32], weights: NDArray[np.float64]) -> None:
        """Take rows, each with the weight that it is learned with."""
        scaled = weights[:, None] * (contexts / np.float64(self.context_scale))
        self.rows += len(contexts)
        self.largest = max(self.largest, float(np.abs(contexts).max(initial=0.0)))
        self._length += float(np.square(scaled).sum())
        self._error += float(np.square(np.rint(GRID * scaled) / GRID - scaled).sum())

    @property
    def relative(self) -> float:
        """The length of the error over that of the contexts."""
        return float(np.sqrt(self._error / self._length)) if self._length else 0.0

    @property
    def advised_scale(self) -> float:
        """The smallest scale with some room above the largest feature seen, in three digits."""
        return float(f"{ROOM * self.largest:.3g}") if self.largest else self.context_scale

    @property
    def worth(self) -> bool:
        """Whether another scale would give back something that matters."""
        return self.relative > WORTH and self.advised_scale < self.context_scale / 2
