"""How well the lower positions of a log foretell its first one: the paper's check of the estimator.

After Chapelle and Zhang (2009): what stands first is examined whatever the other items are, so its clicks are the
nearest thing to the truth. Attractiveness is learned from all rows but the first ones, and has to predict those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from learner.evaluate.estimate import ASYMPTOTIC, Floats, Interval, spread
from learner.evaluate.lists import BEYOND_END, LoggedLists
from learner.evaluate.ubm import fitting_table
from learner.evaluate.units import added, joint


@dataclass(frozen=True, slots=True)
class Error:
    """A mean squared error, or a difference of two, with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, each: Floats, interval: Interval = ASYMPTOTIC) -> Error:
        """Return the mean of what each list says."""
        value = float(each.mean())
        return cls(value, *interval.normal(value, spread(each)))


@dataclass(frozen=True, slots=True)
class FirstPosition:
    """How far predictions of clicks at the first position are off, squared."""

    ubm: Error  # w[1, 0] Σ reward / Σ w
    ips: Error  # Σ reward / rows: examination left out
    difference: Error  # ubm − ips, list by list: below 0 UBM is better
    constant: Error  # predicting the mean of the test rows for all of them: what an informed prediction should beat
    predicted_ubm: float  # mean prediction …
    predicted_ips: float
    clicked: float  # … and what happened
    lists: int  # whose first item was seen at another position in the same context
    left_out: int  # the others


def first_position_check(
    train: LoggedLists, test: LoggedLists | None = None, *, examination: ArrayLike, interval: Interval = ASYMPTOTIC
) -> FirstPosition:
    """Return how well the rows below the first of ``train`` foretell the first rows of ``test`` (None: of ``train``).

    The examination table is learned before, as in the paper: w[1, 0] cannot come from rows that are left out. A
    prediction above 1 counts as 1, that is as a click.
    """
    test = test or train
    table = fitting_table(examination, train.positions)
    if train.positions < 2:
        raise ValueError("the lists have one position, so there is nothing to learn from below the first")
    below = train.items[:, 1:]
    shown = below != BEYOND_END
    seen = table[np.arange(1, train.positions), train.last_clicks[:, 1:]]
    contexts = np.concatenate([np.broadcast_to(train.contexts[:, None], below.shape)[shown], test.contexts])
    pair = joint(contexts, np.concatenate([below[shown], test.items[:, 0]]))
    learned, asked = np.split(pair, [np.count_nonzero(shown)])
    pairs = int(pair.max()) + 1
    earned = added(learned, (train.rewards[:, 1:] > 0)[shown].astype(np.float64), pairs)
    weight = added(learned, seen[shown], pairs)
    count = added(learned, np.ones(len(learned)), pairs)
    known = weight[asked] > 0
    if not known.any():
        raise ValueError("no item stands first in one list and lower in another of the same context")
    asked, clicked = asked[known], (test.rewards[known, 0] > 0).astype(np.float64)
    by_ubm = np.minimum(table[0, 0] * earned[asked] / weight[asked], 1.0)
    by_ips = earned[asked] / count[asked]
    ubm, ips = (by_ubm - clicked) ** 2, (by_ips - clicked) ** 2
    return FirstPosition(
        Error.of(ubm, interval),
        Error.of(ips, interval),
        Error.of(ubm - ips, interval),
        Error.of((clicked - clicked.mean()) ** 2, interval),
        predicted_ubm=float(by_ubm.mean()),
        predicted_ips=float(by_ips.mean()),
        clicked=float(clicked.mean()),
        lists=len(clicked),
        left_out=len(known) - len(clicked),
    )
