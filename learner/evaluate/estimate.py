"""An estimate and its interval, asymptotic or by bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Metric: TypeAlias = Literal["sum", "set"]
"""``sum``: rewards per list, CTR_sum. ``set``: the share of lists with a reward, CTR_set."""


def check_metric(metric: Metric) -> None:
    """Refuse what is no metric."""
    if metric not in ("sum", "set"):
        raise ValueError(f"metric must be 'sum' or 'set', got {metric!r}")


class NoSupport(ValueError):
    """A policy of which the log shows nothing at all."""


@dataclass(frozen=True, slots=True)
class Interval:
    """How to say how far an estimate may be off.

    Without draws it is the normal interval from each list's influence, else a bootstrap: everything that was estimated
    from the log is estimated again from each resample of its lists.
    """

    level: float = 0.95  # the chance to hold the truth
    draws: int = 0
    seed: int = 0  # of the resampling

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {self.level}")
        if self.draws < 0 or 0 < self.draws < 20:
            raise ValueError(f"draws must be 0 for no resampling, or at least 20, got {self.draws}")

    @property
    def name(self) -> str:
        """What people call it."""
        return f"bootstrap of {self.draws}" if self.draws else "asymptotic"

    def normal(self, value: float, standard_error: float) -> tuple[float, float]:
        """Return the interval of a value whose error is normal."""
        reach = float(ndtri(0.5 + self.level / 2)) * standard_error
        return value - reach, value + reach

    def around(
        self, value: float, lists: int, statistic: Callable[[Floats], float], influence: Callable[[], Floats]
    ) -> tuple[float, float, float]:
        """Return the standard error and the interval, by ``resampled`` draws or from each list's influence."""
        if self.draws:
            return self.resampled(value, statistic, lists)
        error = spread(influence())
        return error, *self.normal(value, error)

    def resampled(self, value: float, statistic: Callable[[Floats], float], lists: int) -> tuple[float, float, float]:
        """Return the standard error and the interval; ``statistic`` takes how often each list was drawn.

        A bias that fewer different lists make larger shows in the draws a second time, so it is taken off the value.
        The interval is the normal one around that: quantiles of a few hundred draws are noisy, and reflected they have
        the skew of rewards on the wrong side, which cost a point of coverage where all else was well.
        """
        random = np.random.default_rng(self.seed)
        drawn = (np.bincount(random.integers(lists, size=lists), minlength=lists) for _ in range(self.draws))
        values = np.array([statistic(counts.astype(np.float64)) for counts in drawn])
        error = float(values.std(ddof=1))
        return error, *self.normal(2 * value - float(values.mean()), error)


ASYMPTOTIC = Interval()


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of a policy as a log lets us see it."""

    estimator: str
    metric: Metric
    value: float
    standard_error: float
    low: float
    high: float
    interval: Interval
    lists: int
    effective_lists: float  # (Σw)²/Σw²: as many lists of the policy itself would say as much
    largest_weight: float
    clipped: float  # share of the weights that were cut
    unsupported: float  # share of what the policy shows that the log never shows; it counts as earning nothing
    lists_per_unit: float  # in which 95% of what the policy shows was logged at least, in its own context
    propensities: str  # where π's chances come from
    warnings: tuple[str, ...]  # why the interval may not hold the truth as often as it says

    def __str__(self) -> str:
        return f"{self.estimator}: CTR_{self.metric} {self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


def spread(influence: Floats) -> float:
    """Return the standard error of a mean, from what each list adds to it; one list alone tells nothing."""
    lists = len(influence)
    return float(np.std(influence, ddof=1) / np.sqrt(lists)) if lists > 1 else float("inf")


def effective_lists(weights: Floats, rows: NDArray[np.bool_]) -> float:
    """Return Kish's effective sample size of the rows' weights, in lists.

    >>> effective_lists(np.array([[1.0], [1.0], [0.0], [0.0]]), np.ones((4, 1), dtype=bool))
    2.0
    """
    squares = float(np.sum(weights**2))
    rows_per_list = int(np.count_nonzero(rows)) / len(weights)
    return float(np.sum(weights)) ** 2 / squares / rows_per_list if squares else 0.0
