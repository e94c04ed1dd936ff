"""Means over seeds with their intervals, lifts, and paired tests of the paper's order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

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
        found = np.asarray(values, dtype=np.float64)
        if len(found) < 2:
            return cls(float(found.mean()), None)
        half = float(student.ppf(0.975, len(found) - 1)) * float(found.std(ddof=1)) / sqrt(len(found))
        return cls(float(found.mean()), half)


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

    @property
    def says(self) -> str:
        """``holds`` or ``fails`` if the 95% interval leaves out zero, else ``undecided``."""
        if self.difference.half is None or abs(self.difference.value) <= self.difference.half:
            return "undecided"
        return "holds" if self.difference.value > 0 else "fails"


def best_alphas(tried: Sequence[Mapping[Entry, Earned]]) -> dict[str, float | None]:
    """Return each algorithm's α with the largest mean CTR_sum over the seeds that were tried."""
    best: dict[str, tuple[float, float | None]] = {}
    for entry in tried[0]:
        mean = float(np.mean([earned[entry].ctr_sum for earned in tried]))
        if entry.name not in best or mean > best[entry.name][0]:
            best[entry.name] = mean, entry.alpha
    return {name: alpha for name, (_, alpha) in best.items()}


def rows(played: Sequence[Mapping[Entry, Earned]], *, size: int, at: NDArray[np.int64]) -> list[Row]:
    """Return one row per algorithm from the seeds' results, in the order they were entered."""
    baseline = next((entry for entry in played[0] if entry.name == BASELINE), None)
    made = []
    for entry in played[0]:
        by_seed: dict[Metric, list[float]] = {m: [getattr(each[entry], m) for each in played] for m in METRICS}
        lifts: dict[Metric, Mean] = {}
        if baseline is not None:
            for metric in METRICS:
                base = [getattr(each[baseline], metric) for each in played]
                lifts[metric] = Mean.of([mine / theirs - 1 for mine, theirs in zip(by_seed[metric], base, strict=True)])
        curves = np.mean([each[entry].curve(at) for each in played], axis=0)
        made.append(
            Row(
                name=entry.name,
                size=size,
                alpha=entry.alpha,
                ctr={metric: Mean.of(by_seed[metric]) for metric in METRICS},
                lift=lifts,
                by_seed=by_seed,
                curve={metric: curve.tolist() for metric, curve in zip(METRICS, curves, strict=True)},
            )
        )
    return made


def verdicts(table: Sequence[Row]) -> list[PairedTest]:
    """Return, for every size and metric, whether each step of the paper's order shows in these rows."""
    found = {(row.size, row.name): row for row in table}
    return [
        PairedTest(size, metric, better, worse, Mean.of(np.subtract(above.by_seed[metric], below.by_seed[metric])))
        for size in sorted({row.size for row in table})
        for metric in METRICS
        for better, worse in ORDER
        if (above := found.get((size, better))) and (below := found.get((size, worse)))
    ]
