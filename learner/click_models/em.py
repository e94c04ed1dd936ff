"""Expectation maximisation (EM) of attractiveness and examination, which UBM and PBM share.

A row is clicked with probability a·w: its pair of query and item attracts (a), and the cell it stands in is
examined (w). A cell is (k, k′) for UBM and k for PBM; the rest of the two models is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.click_models.log import ClickLog, Column, Lists
from learner.click_models.model import ClickModel
from learner.click_models.prior import LAPLACE, Beta, Prior

START = 0.5  # of every parameter
PRIOR_EVERY = 10  # iterations between two looks at an empirical prior


@dataclass(frozen=True, slots=True)
class Cells:
    """What EM needs of a log: the rows without a click as counts per pair and cell, and how often each was shown.

    A clicked row is known to be examined and attractive, whatever the parameters, so it needs no work in an iteration.
    """

    pair: Ints
    cell: Ints
    count: Floats
    pair_shown: Ints  # clicked rows too
    cell_shown: Ints

    @classmethod
    def of(cls, pair: Ints, cell: Ints, clicked: Bools, *, pairs: int, cells: int) -> Cells:
        """Return the rows with equal ones counted once."""
        key = pair * cells
        key += cell
        key = key[~clicked]
        key, count = np.unique(key, return_counts=True)
        return cls(
            pair=key // cells,
            cell=key % cells,
            count=count.astype(np.float64),
            pair_shown=np.bincount(pair, minlength=pairs),
            cell_shown=np.bincount(cell, minlength=cells),
        )


@dataclass(frozen=True, slots=True)
class EmFit:
    """Where EM ended."""

    attractiveness: Floats
    examination: Floats
    iterations: int
    change: float  # the largest of any parameter in the last iteration
    prior: Beta  # of a pair's attractiveness, as given or as learned


def maximise(cells: Cells, *, iterations: int, tolerance: float | None = None, prior: Prior = LAPLACE) -> EmFit:
    """Run EM until ``iterations`` are done or no parameter changes by ``tolerance`` or more.

    The expected attraction of a row without click is a(1 − w)/(1 − aw) = 1 − (1 − a)/(1 − aw), and its expected
    examination the same with a and w exchanged. So both sums of the M-step (1 + Σ)/(2 + n) follow from
    one quotient per row, 1/(1 − aw), added up by pair and by cell. An empirical prior of the pairs is learned from
    their clicks and the rows that are expected to have been examined, and looked at again every few iterations.
    """
    known = prior if isinstance(prior, Beta) else LAPLACE
    clicked = cells.pair_shown - _added(cells.count, by=cells.pair, groups=len(cells.pair_shown))
    attractiveness = np.full(len(cells.pair_shown), START)
    examination = np.full(len(cells.cell_shown), START)
    pair_shown, cell_shown = cells.pair_shown.astype(np.float64), cells.cell_shown.astype(np.float64)
    quotient, seen = np.empty(len(cells.count)), np.empty(len(cells.count))
    done, change = 0, np.inf
    while done < iterations and (tolerance is None or change >= tolerance):
        np.take(attractiveness, cells.pair, out=quotient, mode="clip")  # "clip" lets numpy write into out directly
        np.take(examination, cells.cell, out=seen, mode="clip")
        np.multiply(quotient, seen, out=quotient)
        np.subtract(1.0, quotient, out=quotient)
        np.divide(cells.count, quotient, out=quotient)
        if prior == "empirical" and done % PRIOR_EVERY == PRIOR_EVERY - 1:
            passed = cells.count - quotient * (1 - seen)  # rows without a click that were examined all the same
            known = Beta.learned(clicked, clicked + _added(passed, by=cells.pair, groups=len(clicked)))
        quotients = _added(quotient, by=cells.pair, groups=len(pair_shown))
        new_attractiveness = _share(attractiveness, pair_shown, quotients, known)
        new_examination = _share(examination, cell_shown, _added(quotient, by=cells.cell, groups=len(cell_shown)))
        done += 1
        if tolerance is not None or done == iterations:
            change = max(_largest(new_attractiveness - attractiveness), _largest(new_examination - examination))
        attractiveness, examination = new_attractiveness, new_examination
    return EmFit(attractiveness, examination, done, float(change), known)


def _added(values: Floats, *, by: Ints, groups: int) -> Floats:
    return np.bincount(by, values, groups).astype(np.float64, copy=False)  # no copy: only the stubs say integer


def _share(value: Floats, shown: Floats, quotients: Floats, prior: Beta = LAPLACE) -> Floats:
    """Return the M-step (a + Σ)/(a + b + n), where Σ has 1 for a click and 1 − (1 − value)·quotient for other rows."""
    return (prior.clicked + shown - (1 - value) * quotients) / (prior.clicked + prior.other + shown)


def _largest(change: Floats) -> float:
    return float(np.max(np.abs(change)))


class EmModel(ClickModel):
    """A click model of what is examined, fitted by EM from 0.5 everywhere with the M-step (1 + Σ)/(2 + n).

    Parameters
    ----------
    iterations
        How many steps of EM to run.
    tolerance
        Stop earlier, once a step changes no parameter by this much or more; ``iterations_done`` tells when that was.
    """

    steps: ClassVar[int] = 50
    quick_steps: ClassVar[int] = 20
    _table: ClassVar[str] = "examination"

    examination: Floats
    observations: Ints

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

    def examination_of(
        self, items: Lists, clicks: Lists, queries: Column | None = None, *, sizes: Column | None = None
    ) -> tuple[Floats, Ints]:
        """Return the table that was fitted, and how many rows are behind each cell."""
        return self.examination, self.observations

    def _maximise(self, log: ClickLog, pair: Ints, pairs: int, cell: Ints, cells: int) -> tuple[EmFit, Ints]:
        """Return where EM ends, and how often each cell was shown; ``cell`` is a (lists, K) matrix."""
        shown = log.shown
        counts = Cells.of(pair, cell[shown], log.clicks[shown], pairs=pairs, cells=cells)
        estimate = maximise(counts, iterations=self.iterations, tolerance=self.tolerance, prior=self.prior)
        self._prior = estimate.prior
        self.iterations_done, self.change = estimate.iterations, estimate.change
        return estimate, counts.cell_shown
