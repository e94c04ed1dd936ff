"""What a policy is asked to rank, and what users answer: many visits at once, as columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)

LEARN_AFTER = 0.02  # a policy learns again after this share of what it has seen so far, one list at first


@dataclass(frozen=True, slots=True)
class Visits:
    """Users who come by, each with m candidates."""

    items: NDArray[np.int64]  # (n, m)
    contexts: NDArray[np.floating]  # (n, m, d)
    attractiveness: Floats  # (n, m), γ*: only an oracle may look
    attraction: Floats  # (n, m), what is multiplied by w to answer: γ* of users, click/w of a log

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: slice) -> "Visits":
        return Visits(self.items[rows], self.contexts[rows], self.attractiveness[rows], self.attraction[rows])


def shuffled(visits: Visits, random: np.random.Generator) -> Visits:
    """Return the visits with each one's candidates in random order: a log's own order must not break ties."""
    order = np.argsort(random.random(visits.items.shape), axis=1)
    columns = (visits.items, visits.contexts, visits.attractiveness, visits.attraction)
    return Visits(*(pick(order, column) for column in columns))  # type: ignore[arg-type]


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
