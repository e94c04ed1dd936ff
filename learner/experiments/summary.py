"""Means over seeds with their intervals, lifts, and paired tests of the paper's order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # a quantile of Student's t; scipy.stats takes half a second to import

from learner.experiments.arena import Earned
from learner.experiments.policies import Entry

Floats = NDArray[np.float64]
Metric = Literal["ctr_sum", "ctr_set"]
METRICS: tuple[Metric, Metric] = ("ctr_sum", "ctr_set")

BASELINE = "c2ucb"
ORDER = (  # the paper's claim, pair by pair
    ("ubm-linucb", "dcm-linucb"),
    ("dcm-linucb", "cm-linucb"),
    ("cm-linucb", "c2ucb"),
    ("cm-linucb", "pbm-ucb"),
)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over seeds and the half-width of its 95% interval by Student's t; None with a single seed."""

    value: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> "Mean":
        """Return the mean of one value per seed.

        >>> Mean.of([1.0, 2.0, 3.0]).half.__round__(3)
        2.484
        """
        by_seed = np.asarray(values, dtype=np.float64)
        if len(by_seed) < 2:
            return cls(float(by_seed.mean()), None)
        half = float(stdtrit(len(by_seed) - 1, 0.975)) * float(by_seed.std(ddof=1)) / sqrt(len(by_seed))
        return cls(float(by_seed.mean()), half)

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.half is not None and abs(self.value) > self.half

    @property
    def percent(self) -> str:
        """A lift in percent with its half-width.

        >>> Mean(0.012, 0.003).percent
        '+1.2 ± 0.3%'
        """
        width = "" if self.half is None else f" ± {100 * self.half:.1f}"
        return f"{100 * self.value:+.1f}{width}%"

    def plus_minus(self, sign: str = "") -> str:
        """Return the mean with its half-width: 0.9050 ± 0.0020."""
        return f"{self.value:{sign}.4f}" + ("" if self.half is None else f" ± {self.half:.4f}")


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm with lists of one size: both click rates and their lifts over C²UCB among the same users."""

    name: str
    size: int
    alpha: float | None
    ctr: Mapping[Metric, Mean]
    lift: Mapping[Metric, Mean]
    by_seed: Mapping[Metric, list[float]]
    curve: Mapping[Metric, list[float]]  # the cumulative mean at the experiment's checkpoints, mean over seeds


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Whether one algorithm is above another, as the paper has it: the paired difference of a click rate."""

    size: int
    metric: Metric
    better: str
    worse: str
    difference: Mean
    says: Literal["holds", "fails", "undecided"]  # undecided: the 95% interval of the difference holds zero

    @classmethod
    def of(cls, above: Row, below: Row, metric: Metric) -> "PairedTest":
        """Return what two rows of the same size say, seed by seed."""
        difference = Mean.of(np.subtract(above.by_seed[metric], below.by_seed[metric]))
        decision: Literal["holds", "fails"] = "holds" if difference.value > 0 else "fails"
        says = decision if difference.decided else "undecided"
        return cls(above.size, metric, above.name, below.name, difference, says)


def best_alphas(tried: Sequence[Mapping[Entry, Earned]]) -> dict[str, float | None]:
    """Return each algorithm's α with the largest mean CTR_sum over the seeds that were tried, the first of equals."""
    means = {entry: float(np.mean([earned[entry].ctr_sum for earned in tried])) for entry in tried[0]}
    best: dict[str, float | None] = {}
    for entry in sorted(means, key=means.__getitem__, reverse=True):
        best.setdefault(entry.name, entry.alpha)
    return best


def rows(played: Sequence[Mapping[Entry, Earned]], *, size: int, at: NDArray[np.int64]) -> list[Row]:
    """Return one row per algorithm from the seeds' results, in the order they were entered."""
    rates = {entry: {m: np.array([getattr(each[entry], m) for each in played]) for m in METRICS} for entry in played[0]}
    base = next((by_seed for entry, by_seed in rates.items() if entry.name == BASELINE), None)
    made = []
    for entry, by_seed in rates.items():
        curves = np.mean([each[entry].curve(at) for each in played], axis=0)
        made.append(
            Row(
                name=entry.name,
                size=size,
                alpha=entry.alpha,
                ctr={metric: Mean.of(by_seed[metric]) for metric in METRICS},
                lift={metric: Mean.of(by_seed[metric] / base[metric] - 1) for metric in METRICS} if base else {},
                by_seed={metric: by_seed[metric].tolist() for metric in METRICS},
                curve={metric: curve.tolist() for metric, curve in zip(METRICS, curves, strict=True)},
            )
        )
    return made


def verdicts(table: Sequence[Row]) -> list[PairedTest]:
    """Return, for every size and metric, whether each step of the paper's order shows in these rows."""
    by_name = {(row.size, row.name): row for row in table}
    return [
        PairedTest.of(above, below, metric)
        for size in sorted({row.size for row in table})
        for metric in METRICS
        for better, worse in ORDER
        if (above := by_name.get((size, better))) and (below := by_name.get((size, worse)))
    ]
