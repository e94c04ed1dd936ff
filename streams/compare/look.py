"""One look at all buckets: what to compare, and their moments over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from learner.compare import RatioMoments


@dataclass(frozen=True, slots=True)
class CompareChoice:
    """What to compare, and how sure to be."""

    control: str | None = None  # else the first by name
    split: str | None = None  # version of the split; else the newest
    shares: Mapping[str, float] = field(default_factory=dict)  # of users, as the split means them; none: not tested
    buckets: tuple[str, ...] = ()  # none: all
    metric: str = "sum"  # that the verdict is about
    alpha: float = 0.05  # chance that any verdict is ever wrong
    guardrail: float = 0.05  # a bucket certainly so much below the control is to be stopped
    alarm_alpha: float = 0.0005  # chance that a check ever blames what is sound: half of the 0.1% that is promised
    correctable_s: float = 1200.0  # H: so long after being shown a list may change


@dataclass(frozen=True, slots=True)
class Look:
    """All buckets over time."""

    control: str
    minutes: NDArray[np.int64]  # that have a list
    over: Mapping[str, list[RatioMoments]]  # of each metric
    choice: CompareChoice

    @property
    def alpha(self) -> float:
        """What each bucket may err, so that all together err with the chance that was chosen."""
        return self.choice.alpha / max(1, len(self.over) - 1)
