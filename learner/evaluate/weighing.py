"""The importance-weighted mean that all the estimators share.

A reward counts Φ(u)/π(u) times, u being what the estimator weighs: a list, a prefix, an item at a position, or (UBM)
an item, whose chance is that of being examined. If π is not known it is estimated by what the log shows of u in its
context, π̂(u) = Σ m / n(X), with m = 1 for something shown and m = w[k, k′] for something examined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.evaluate.estimate import Estimate, Floats, Interval, Metric, NoSupport, effective_lists, spread
from learner.evaluate.units import Units, added

GIVEN, LOGGED = "given", "from the log"
ESTIMATED = "estimated from the log's frequencies in each context"


@dataclass(frozen=True, slots=True)
class Target:
    """The policy in units."""

    masses: Floats  # Φ(u)
    slopes: Floats  # what the policy's value gains with what u earns: Φ(u), unless Φ itself was estimated by it
    expected: Floats  # Σ Φ(u) in each context, of one column


@dataclass(frozen=True, slots=True)
class Weighing:
    """An estimator before the lists are counted.

    Parameters
    ----------
    rewards, measures
        (n, columns); a measure is what a row adds to its unit's logged mass, 0 beyond a list's end.
    units
        The numbers of the rows' units.
    target
        Gives Φ from what a unit earns per measure, for estimators whose Φ depends on that.
    logging
        (n, columns) π(u) of each row; None to estimate it.
    logged_masses
        π(u) of all units, if known.
    clip
        The largest weight.
    normalise
        Divide by the mean weight, and multiply with what it should be: biased, but steadier.
    pooled
        Normalise all columns together, since a unit may stand in any.
    offset
        (n,) what each list says besides.
    """

    rewards: Floats
    measures: Floats
    units: Units
    target: Callable[[Floats], Target]
    logging: Floats | None = None
    logged_masses: Floats | None = None
    clip: float | None = None
    normalise: bool = False
    pooled: bool = False
    offset: Floats | None = None

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be a weight above 0, or None, got {self.clip}")

    def estimate(self, *, estimator: str, metric: Metric, interval: Interval, propensities: str) -> Estimate:
        """Return the value with its interval and what is known of the weights."""
        lists = len(self.rewards)
        solved = self._solve(np.ones(lists))
        unsupported = self._unsupported(solved)
        if unsupported >= 1.0 - 1e-12:
            raise NoSupport(f"the log shows nothing of what the policy shows, in {estimator}'s terms: no estimate")
        if interval.draws:
            error, low, high = interval.resampled(lambda counts: self._solve(counts).value, lists)
        else:
            error = spread(self._influence(solved))
            low, high = interval.normal(solved.value, error)
        rows = self.measures > 0
        return Estimate(
            *(estimator, metric, solved.value, error, low, high, interval, lists),
            effective_lists=effective_lists(solved.weights, rows),
            largest_weight=float(solved.weights.max()),
            clipped=float(np.count_nonzero(solved.clipped) / np.count_nonzero(rows)),
            unsupported=unsupported,
            propensities=propensities,
        )

    def rates(self, counts: Floats) -> Floats:
        """Return what each unit earns per measure, 0 if there is none."""
        mass = added(self.units.logged, counts[:, None] * self.measures, self.units.count)
        earned = added(self.units.logged, counts[:, None] * self.rewards, self.units.count)
        return np.divide(earned, mass, out=np.zeros(self.units.count), where=mass > 0)

    def _solve(self, counts: Floats) -> Solved:
        unit, context = self.units.logged, self.units.context
        total = counts.sum()
        mass = added(unit, counts[:, None] * self.measures, self.units.count)
        rate = self.rates(counts)
        lists = added(context, counts, self.units.contexts)
        target = self.target(rate)
        logging = self.logging
        if logging is None:
            logging = np.divide(
                mass[unit], lists[context][:, None], where=counts[:, None] > 0, out=np.zeros(unit.shape)
            )
        ratio = np.divide(1.0, logging, out=np.zeros(unit.shape), where=logging > 0)
        weights = target.masses[unit] * ratio
        clipped = np.zeros(unit.shape, dtype=np.bool_)
        if self.clip is not None:
            clipped = weights > self.clip
            weights = np.minimum(weights, self.clip)
        gain = counts @ self._columns(weights * self.rewards) / total
        met = counts @ self._columns(weights * self.measures) / total
        expected = float(lists @ target.expected / total)
        share = np.divide(expected, met, out=np.zeros(met.shape), where=met > 0) if self.normalise else np.ones(1)
        value = float(np.sum(gain * share) + (0.0 if self.offset is None else counts @ self.offset / total))
        return Solved(value, weights, clipped, ratio, rate, gain, met, expected, lists, mass, target)

    def _columns(self, rows: Floats) -> Floats:
        return rows.sum(axis=1, keepdims=True) if self.pooled else rows

    def _influence(self, solved: Solved) -> Floats:
        """Return how much each list moves the value, up to a constant."""
        gain = self._linear(solved, self.rewards, solved.rate)
        if not self.normalise:
            return np.asarray(gain.sum(axis=1) + (0.0 if self.offset is None else self.offset))
        met = self._linear(solved, self.measures, np.ones(len(solved.rate)))
        usable = solved.met > 0
        share = np.divide(1.0, solved.met, out=np.zeros(usable.shape), where=usable)
        expected = solved.target.expected[self.units.context][:, None]
        moves = solved.expected * (gain - solved.gain * share * met) + solved.gain * expected
        return np.asarray((moves * share).sum(axis=1))

    def _linear(self, solved: Solved, values: Floats, rate: Floats) -> Floats:
        """Return the influence of each list on the mean of weight · value, by column.

        With an estimated π it is that of a ratio: what a row has above its unit's rate, and its context's mean.
        """
        if self.logging is not None:
            return self._columns(solved.weights * values)
        unit, context = self.units.logged, self.units.context
        ratios = solved.ratio * (solved.target.slopes[unit] if values is self.rewards else solved.target.masses[unit])
        residual = np.where(solved.clipped, solved.weights * values, ratios * (values - rate[unit] * self.measures))
        settled = self._columns(np.where(solved.clipped, 0.0, solved.weights * values))
        sums = [added(context, column, self.units.contexts) for column in settled.T]
        means = np.array(sums) / np.maximum(solved.lists, 1)
        return self._columns(residual) + means[:, context].T

    def _unsupported(self, solved: Solved) -> float:
        """Return the share of the policy's mass that lies on units without logged mass, in the logged contexts."""
        if self.logging is not None and self.logged_masses is None:
            # Only the chances of what was logged are known. Their weights should have the expected mean; what is
            # missing beyond two standard errors is no chance.
            met = (solved.target.masses[self.units.logged] * solved.ratio).mean(axis=1) / solved.expected
            return float(np.clip(1.0 - met.mean() - 2 * spread(met), 0.0, 1.0)) if met.any() else 1.0
        logged = solved.mass if self.logged_masses is None else self.logged_masses
        shown, context = self.units.shown[0], self.units.context_of[0]
        where = np.full(self.units.count, self.units.contexts)
        where[shown] = context[:, None]
        lists = np.append(solved.lists, 0.0)[where]
        whole = float(lists @ solved.target.masses)
        return float((lists * (logged <= 0)) @ solved.target.masses) / whole if whole else 1.0


@dataclass(frozen=True, slots=True)
class Solved:
    """The arithmetic of one count of the lists."""

    value: float
    weights: Floats  # (n, columns)
    clipped: NDArray[np.bool_]
    ratio: Floats  # 1/π(u)
    rate: Floats  # what a unit earns per measure
    gain: Floats  # mean of weight · reward, by column
    met: Floats  # mean of weight · measure, by column
    expected: float  # what ``met`` should be
    lists: Floats  # in each context
    mass: Floats  # of each unit, in the log
    target: Target
