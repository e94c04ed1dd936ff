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
from learner.evaluate.lists import LoggedLists
from learner.evaluate.units import Units, added

GIVEN, LOGGED = "given", "from the log"
ESTIMATED = "estimated from the log's frequencies in each context"
RARE = 0.05  # of what a policy shows may have been logged less often than is said
FEW_LISTS, FEW_EFFECTIVE = 10, 150  # below these, intervals were measured to hold the truth too seldom


@dataclass(frozen=True, slots=True)
class Target:
    """The policy in units."""

    masses: Floats  # Φ(u)
    slopes: Floats | None  # what the policy's value gains with u's click rate; None: Φ does not depend on clicks
    expected: Floats  # Σ Φ(u) in each context, of one column
    offset: Floats | None = None  # in each context, what is said besides the weighed rewards


@dataclass(frozen=True, slots=True)
class Weighing:
    """An estimator before the lists are counted."""

    rewards: Floats  # (n, columns)
    measures: Floats  # (n, columns) what a row adds to its unit's logged mass, 0 beyond a list's end
    units: Units  # of the rows
    target: Callable[[Floats, Floats], Target]  # Φ from how often a unit is clicked and what it earns, per measure
    clicks: Floats | None = None  # (n, columns) 1 for a click; None if Φ does not depend on clicks
    logging: Floats | None = None  # (n, columns) π(u) of each row; None to estimate it
    logged_masses: Floats | None = None  # π(u) of all units, if known
    clip: float | None = None  # the largest weight
    normalise: bool = False  # divide by the mean weight, multiply with what it should be: biased, but steadier
    pooled: bool = False  # normalise all columns together, since a unit may stand in any
    propensities: str = ESTIMATED  # where π's chances come from

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be a weight above 0, or None, got {self.clip}")

    def named(self, name: str) -> str:
        """Return an estimator's name with what is done to its weights."""
        return name + ", self-normalised" * self.normalise + (f", clipped at {self.clip:g}" if self.clip else "")

    def estimate(self, estimator: str, metric: Metric, interval: Interval) -> Estimate:
        """Return the value with its interval and what is known of the weights."""
        lists = len(self.rewards)
        solved = self._solve(np.ones(lists))
        unsupported = self._unsupported(solved)
        if unsupported >= 1.0 - 1e-12:
            raise NoSupport(f"the log shows nothing of what the policy shows, in {estimator}'s terms: no estimate")
        error, low, high = interval.around(
            solved.value, lists, lambda counts: self._solve(counts).value, lambda: self._influence(solved)
        )
        rows = self.measures > 0
        effective, per_unit = effective_lists(solved.weights, rows), self._lists_per_unit(solved)
        return Estimate(
            estimator=estimator,
            metric=metric,
            value=solved.value,
            standard_error=error,
            low=low,
            high=high,
            interval=interval,
            lists=lists,
            effective_lists=effective,
            largest_weight=float(solved.weights.max()),
            clipped=float(np.count_nonzero(solved.clipped) / np.count_nonzero(rows)),
            unsupported=unsupported,
            lists_per_unit=per_unit,
            propensities=self.propensities,
            warnings=doubts(lists, effective, per_unit if self.logging is None else np.inf),
        )

    def rates(self, values: Floats, counts: Floats) -> Floats:
        """Return what each unit has of ``values`` (n, columns) per measure, 0 if there is none."""
        unit, count = self.units.logged, self.units.count
        mass = added(unit, counts[:, None] * self.measures, count)
        if self.logged_masses is not None:  # what it should be instead of what it happened to be
            lists = added(self.units.context, counts, self.units.contexts)[self.units.context][:, None]
            expected = np.zeros(count)
            expected[unit] = lists * self.logged_masses[unit]
            mass = expected
        total = added(unit, counts[:, None] * values, count)
        return np.divide(total, mass, out=np.zeros(count), where=mass > 0)

    def _solve(self, counts: Floats) -> Solved:
        unit, context = self.units.logged, self.units.context
        total = counts.sum()
        mass = added(unit, counts[:, None] * self.measures, self.units.count)
        rate = self.rates(self.rewards, counts)
        clicked = rate if self.clicks is None else self.rates(self.clicks, counts)
        lists = added(context, counts, self.units.contexts)
        target = self.target(clicked, rate)
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
        besides = 0.0 if target.offset is None else float(lists @ target.offset / total)
        value = float(np.sum(gain * share)) + besides
        return Solved(
            value=value,
            weights=weights,
            clipped=clipped,
            ratio=ratio,
            rate=rate,
            click_rate=clicked,
            gain=gain,
            met=met,
            expected=expected,
            lists=lists,
            mass=mass,
            target=target,
        )

    def _columns(self, rows: Floats) -> Floats:
        return rows.sum(axis=1, keepdims=True) if self.pooled else rows

    def _influence(self, solved: Solved) -> Floats:
        """Return how much each list moves the value, up to a constant."""
        gain = self._linear(solved, self.rewards, solved.rate, slopes=solved.target.slopes)
        if not self.normalise:
            offset = solved.target.offset
            return np.asarray(gain.sum(axis=1) + (0.0 if offset is None else offset[self.units.context]))
        met = self._linear(solved, self.measures, np.ones(len(solved.rate)))
        usable = solved.met > 0
        share = np.divide(1.0, solved.met, out=np.zeros(usable.shape), where=usable)
        expected = solved.target.expected[self.units.context][:, None]
        moves = solved.expected * (gain - solved.gain * share * met) + solved.gain * expected
        return np.asarray((moves * share).sum(axis=1))

    def _linear(self, solved: Solved, values: Floats, rate: Floats, slopes: Floats | None = None) -> Floats:
        """Return the influence of each list on the mean of weight · value, by column.

        With an estimated π it is that of a ratio: what a row has above its unit's rate, and its context's mean. A
        unit of few rows has a rate close to each of them, so their distance is stretched by what it lost.
        """
        unit, context = self.units.logged, self.units.context
        lever = np.zeros(unit.shape) if slopes is None else np.where(solved.clipped, 0.0, slopes[unit] * solved.ratio)
        clicks = np.zeros(unit.shape) if self.clicks is None else self.clicks
        if self.logging is not None:
            return self._columns(solved.weights * values + lever * clicks)
        above = solved.weights * (values - rate[unit] * self.measures)
        above += lever * (clicks - solved.click_rate[unit] * self.measures)
        residual = np.where(solved.clipped, solved.weights * values, above * self._stretch(solved))
        settled = self._columns(np.where(solved.clipped, 0.0, solved.weights * values))
        sums = [added(context, column, self.units.contexts) for column in settled.T]
        means = np.array(sums) / np.maximum(solved.lists, 1)
        return self._columns(residual) + means[:, context].T

    def _stretch(self, solved: Solved) -> Floats:
        """Return √((1 − 1/lists of the context) / (1 − the row's share of its unit)), by row.

        The noise of a rate is in its context's mean already, once for each list of the context.
        """
        mass = solved.mass[self.units.logged]
        share = np.divide(self.measures, mass, out=np.zeros(mass.shape), where=mass > 0)
        lists = 1 - 1 / np.maximum(solved.lists, 1)[self.units.context][:, None]
        return np.asarray(np.sqrt(np.divide(lists, 1 - share, out=np.ones(mass.shape), where=share < 1 - 1e-12)))

    def _lists_per_unit(self, solved: Solved) -> float:
        """Return in how many lists of its context 95% of what the policy shows was logged at least."""
        shown = added(self.units.logged, (self.measures > 0).astype(np.float64), self.units.count)
        mass = self._weight_of_units(solved)
        order = np.argsort(shown, kind="stable")
        reached = np.cumsum(mass[order])
        return float(shown[order][np.searchsorted(reached, RARE * reached[-1], side="right")])

    def _unsupported(self, solved: Solved) -> float:
        """Return the share of the policy's mass that lies on units without logged mass, in the logged contexts."""
        if self.logging is not None and self.logged_masses is None:
            # Only the chances of what was logged are known. Their weights should have the expected mean; what is
            # missing beyond two standard errors is no chance.
            met = (solved.target.masses[self.units.logged] * solved.ratio).mean(axis=1) / solved.expected
            return float(np.clip(1.0 - met.mean() - 2 * spread(met), 0.0, 1.0)) if met.any() else 1.0
        logged = solved.mass if self.logged_masses is None else self.logged_masses
        mass = self._weight_of_units(solved)
        whole = float(mass.sum())
        return float(mass @ (logged <= 0)) / whole if whole else 1.0

    def _weight_of_units(self, solved: Solved) -> Floats:
        """Return Φ(u) times the lists that were logged in the unit's context."""
        where = np.full(self.units.count, self.units.contexts)
        where[self.units.shown[0]] = self.units.context_of[0][:, None]
        return np.asarray(np.append(solved.lists, 0.0)[where] * solved.target.masses)


@dataclass(frozen=True, slots=True)
class Solved:
    """The arithmetic of one count of the lists."""

    value: float
    weights: Floats  # (n, columns)
    clipped: NDArray[np.bool_]
    ratio: Floats  # 1/π(u)
    rate: Floats  # what a unit earns per measure
    click_rate: Floats  # how often it is clicked per measure, where that matters
    gain: Floats  # mean of weight · reward, by column
    met: Floats  # mean of weight · measure, by column
    expected: float  # what ``met`` should be
    lists: Floats  # in each context
    mass: Floats  # of each unit, in the log
    target: Target


def checked_logging(chances: Floats, log: LoggedLists) -> Floats:
    """Return π of the logged rows, none of which can be 0."""
    if np.any(impossible := chances <= 0):
        at = int(np.argwhere(impossible)[0][0])
        raise ValueError(f"list {at}, {log.items[at].tolist()}, was logged, but the logging policy never shows it so")
    return chances


def doubts(lists: int, effective: float, lists_per_unit: float) -> tuple[str, ...]:
    """Return why an interval may hold the truth less often than it says; nothing if all is well."""
    said = []
    if lists_per_unit < FEW_LISTS:
        said.append(
            f"5% of what the policy shows was logged in {lists_per_unit:.0f} lists of its context or fewer, and "
            f"chances estimated from fewer than {FEW_LISTS} lists are poor: do not trust the interval"
        )
    if effective < FEW_EFFECTIVE:
        said.append(f"the weights leave {effective:.0f} effective lists of {lists}: do not trust the interval")
    return tuple(said)
