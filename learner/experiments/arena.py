"""A contest of policies, side by side among the same users with the same luck (common random numbers)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from learner.samples import Samples
from learner.simulate import answer

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Scores = NDArray[np.floating] | NDArray[np.int64]

Name = TypeVar("Name", bound=Hashable)
Number = TypeVar("Number", bound=np.generic)

LEARN_AFTER = 0.02  # a policy learns again after this share of what it has seen so far, one list at first


@dataclass(frozen=True, slots=True)
class Visits:
    """Users who come by, each with m candidates, as columns."""

    items: NDArray[np.int64]  # (n, m)
    contexts: NDArray[np.floating]  # (n, m, d)
    attractiveness: Floats  # (n, m), γ*: only an oracle may look
    attraction: Floats  # (n, m), what is multiplied by w to answer: γ* of users, click/w of a log

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: slice) -> Visits:
        return self._each(lambda column: column[rows])

    def shuffled(self, random: np.random.Generator) -> Visits:
        """Return the visits with each one's candidates in random order: a log's own order must not break ties."""
        return self._each(partial(pick, np.argsort(random.random(self.items.shape), axis=1)))

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Visits:
        return Visits(*map(change, (self.items, self.contexts, self.attractiveness, self.attraction)))


class OnlinePolicy:
    """Ranks for many visits at once and learns from their answers; as it stands, at random and without learning."""

    def scores(self, visits: Visits, random: np.random.Generator) -> Scores:
        """Return a score for each candidate (n, m), the larger the better."""
        return random.random(visits.items.shape)

    def rank(self, visits: Visits, size: int, random: np.random.Generator) -> Rows:
        """Return the rows (n, size) of the candidates to show, best first."""
        return np.argsort(-self.scores(visits, random), axis=1, kind="stable")[:, :size]

    def learn(self, samples: Samples) -> None:
        """Learn from what was shown."""


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
    own = {name: np.random.default_rng([seed, 1, number]) for number, name in enumerate(policies)}
    earned: dict[Name, list[tuple[float, float]]] = {name: [] for name in policies}
    unlearned: dict[Name, deque[Samples]] = {name: deque() for name in policies}
    rounds = [0]
    for batch in parts:
        for name, policy in policies.items():
            rows = policy.rank(batch, size, own[name])
            attraction = pick(rows, batch.attraction)
            luck = np.random.default_rng([seed, 0, rounds[-1]])  # the same for every policy
            clicks, chance = answer(attraction, examination, luck, continuation)
            unclicked = 1 - np.minimum(attraction * examination[:size, 0], 1.0)
            earned[name].append((float(chance.sum()), float((1 - unclicked.prod(axis=1)).sum())))
            samples = Samples.from_clicks(pick(rows, batch.contexts), clicks, pick(rows, batch.items))
            unlearned[name].append(replace(samples, reward=chance.reshape(-1)) if reweighted else samples)
            if len(unlearned[name]) > delay:
                policy.learn(unlearned[name].popleft())
        rounds.append(rounds[-1] + len(batch))
    at = np.array(rounds[1:])
    return {name: Earned(at, *np.cumsum(lessons, axis=0).T) for name, lessons in earned.items()}


def batches(visits: Iterator[Visits], *, rounds: int) -> Iterator[Visits]:
    """Cut visits into what is ranked between two lessons: 1 list at first, then 2% of the lists so far.

    After every list, as the paper has it, costs 50 times more; a model that lacks the last 2% of its lessons ranks the
    same but for that.
    """
    seen = 0
    for part in visits:
        start = 0
        while start < len(part) and seen < rounds:
            size = min(max(1, int(LEARN_AFTER * seen)), rounds - seen)
            batch = part[start : start + size]
            yield batch
            start, seen = start + len(batch), seen + len(batch)
        if seen >= rounds:
            return
    raise ValueError(f"{rounds} rounds were asked for, the visits ended after {seen}")


def pick(rows: NDArray[np.int64], values: NDArray[Number]) -> NDArray[Number]:
    """Return ``values`` (n, m, …) at the chosen ``rows`` (n, K) of each list."""
    return np.asarray(values[np.arange(len(rows))[:, None], rows])
