"""What the click models fitted by EM have in common."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from learner.click_models.em import Cells, EmFit, maximise
from learner.click_models.log import ClickLog
from learner.click_models.model import ClickModel
from learner.click_models.prior import LAPLACE, Prior


class EmModel(ClickModel):
    """A click model of what is examined, fitted by EM from 0.5 everywhere with the M-step (1 + Σ)/(2 + n)."""

    _table: ClassVar[str] = "examination"

    examination: NDArray[np.float64]
    observations: NDArray[np.int64]

    iterations_done: int
    """Iterations that the last ``fit`` ran."""

    change: float
    """Largest change of any parameter in the last of these iterations."""

    def __init__(self, iterations: int = 50, tolerance: float | None = None, *, prior: Prior = LAPLACE) -> None:
        super().__init__(prior=prior)
        if not isinstance(iterations, Integral) or isinstance(iterations, bool) or iterations < 1:
            raise ValueError(f"iterations must be an integer of at least 1, got {iterations!r}")
        if tolerance is not None and not (isinstance(tolerance, Real) and 0 < tolerance < np.inf):
            raise ValueError(f"tolerance must be a number above 0, or None for all iterations, got {tolerance!r}")
        self.iterations: int = int(iterations)
        self.tolerance: float | None = tolerance

    def _maximise(
        self, log: ClickLog, pair: NDArray[np.int64], pairs: int, cell: NDArray[np.int64], cells: int
    ) -> tuple[EmFit, NDArray[np.int64]]:
        """Return where EM ends, and how often each cell was shown; ``cell`` is a (lists, K) matrix."""
        shown = log.shown
        counts = Cells.of(pair, cell[shown], log.clicks[shown], pairs=pairs, cells=cells)
        estimate = maximise(counts, iterations=self.iterations, tolerance=self.tolerance, prior=self.prior)
        self._prior = estimate.prior
        self.iterations_done, self.change = estimate.iterations, estimate.change
        return estimate, counts.cell_shown
