"""A contest of policies, side by side among the same users with the same luck (common random numbers)."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from learner.experiments.policies import OnlinePolicy
from learner.experiments.visits import Visits, pick
from learner.samples import Samples
from learner.simulate.browse import answer

Floats = NDArray[np.float64]

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Earned:
    """What one policy earned, lesson by lesson."""

    rounds: NDArray[np.int64]  # lists shown so far, after each batch
    sums: Floats  # clicks so far
    sets: Floats  # lists with a click so far

    @property
    def ctr_sum(self) -> float:
        """Clicks per list."""
        return float(self.sums[-1] / self.rounds[-1])

    @property
    def ctr_set(self) -> float:
        """Share of the lists with a click."""
        return float(self.sets[-1] / self.rounds[-1])

    def curve(self, at: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return both cumulative mean click rates after the given numbers of rounds."""
        rounds = np.maximum(at, self.rounds[0])
        return np.interp(rounds, self.rounds, self.sums) / rounds, np.interp(rounds, self.rounds, self.sets) / rounds


@dataclass(slots=True)
class Seat:
    """A policy on its way, and the batches it has not learned from yet."""

    policy: OnlinePolicy
    sums: list[float]
    sets: list[float]
    unlearned: list[Samples]


def compete(
    policies: Mapping[Name, OnlinePolicy],
    parts: Iterable[Visits],
    *,
    size: int,
    examination: Floats,
    seed: int,
    continuation: Floats | None = None,
    delay: int = 0,
    reweighted: bool = False,
) -> dict[Name, Earned]:
    """Return what each policy earned with lists of ``size`` when users answer by ``examination`` (K×K).

    A policy learns from a batch once it was shown and ``delay`` further batches too. CTR_sum adds up the chance of each
    click after the clicks above, CTR_set the chance 1 − Π(1 − w[k, 0] g) of any: the same in the mean as counting, with
    less noise. A chance above 1, as a log reweighted by 1/w gives, counts in full for CTR_sum and as 1 for CTR_set.
    With ``reweighted`` that chance is also what is learned from, in place of the drawn click, which saturates at 1 and
    so shows little of what positions do; the drawn clicks still decide k′.
    """
    seats = {name: Seat(policy, [], [], []) for name, policy in policies.items()}
    own = {name: np.random.default_rng([seed, 1, place]) for place, name in enumerate(seats)}
    shown = 0
    rounds = []
    for batch in parts:
        for name, seat in seats.items():
            rows = seat.policy.rank(batch, size, own[name])
            attraction = pick(rows, batch.attraction)
            luck = np.random.default_rng([seed, 0, shown])  # the same for every policy
            clicks, chance = answer(attraction, examination, luck, continuation)
            seat.sums.append(float(chance.sum()))
            unclicked = 1 - np.minimum(attraction * examination[:size, 0], 1.0)
            seat.sets.append(float((1 - unclicked.prod(axis=1)).sum()))
            samples = Samples.from_clicks(pick(rows, batch.contexts), clicks, pick(rows, batch.items))
            seat.unlearned.append(replace(samples, reward=chance.reshape(-1)) if reweighted else samples)
            if len(seat.unlearned) > delay:
                seat.policy.learn(seat.unlearned.pop(0))
        shown += len(batch)
        rounds.append(shown)
    at = np.array(rounds)
    return {name: Earned(at, np.cumsum(seat.sums), np.cumsum(seat.sets)) for name, seat in seats.items()}
