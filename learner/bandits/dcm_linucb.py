"""DCM-LinUCB: the dependent click model reads on after a click, and is known to have read down to the last one."""

from collections.abc import Mapping
from typing import Unpack

import numpy as np

from learner.arrays import Bools, Floats, Ints
from learner.bandits.c2ucb import FullWeightBandit
from learner.bandits.linear import Scales
from learner.exact import State, checked_cells
from learner.samples import Samples


class DcmLinUcb(FullWeightBandit):
    """Learns from the rows up to the last click, from all when there is none.

    ``clicks`` and ``terminations`` count, per position, the clicks and how many of them were their list's last: the
    chance that a user is satisfied after a click there. They stand beside A and b and never enter them.
    """

    name = "dcm-linucb"

    def __init__(self, dim: int, *, positions: int, ridge: float | str | None = None, **scales: Unpack[Scales]) -> None:
        super().__init__(dim, positions=positions, ridge=ridge, **scales)
        self.clicks = np.zeros(self.positions, dtype=np.int64)
        self.terminations = np.zeros(self.positions, dtype=np.int64)

    @classmethod
    def state_sizes(cls, dim: int, positions: int) -> dict[str, int | None]:
        """Return the length of each array of a state."""
        return {**super().state_sizes(dim, positions), "clicks": positions, "terminations": positions}

    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples`` (take back those of sign −1); on bad input nothing changes."""
        super().learn(samples)
        last = last_clicks(samples)
        clicked = samples.reward > 0
        signs = np.repeat(samples.sign, samples.size)
        np.add.at(self.clicks, samples.position[clicked] - 1, signs[clicked])
        np.add.at(self.terminations, last[last > 0] - 1, samples.sign[last > 0])

    def _weigh(self, samples: Samples) -> tuple[Bools | None, Floats]:
        last = last_clicks(samples)[samples.list_of_row()]
        rows = (samples.position <= last) | (last == 0)
        return rows, np.ones(np.count_nonzero(rows))

    def state(self) -> State:
        """Return the sums, the rounds and the counts as integers."""
        return {**super().state(), "clicks": self.clicks.copy(), "terminations": self.terminations.copy()}

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over a state that a model with the same settings returned."""
        clicks, terminations = (checked_cells(state, name, self.positions) for name in ("clicks", "terminations"))
        super().restore(state)
        self.clicks, self.terminations = clicks.copy(), terminations.copy()


def last_clicks(samples: Samples) -> Ints:
    """Return the position of each list's last click, or 0."""
    last = np.zeros(len(samples), dtype=np.int64)
    clicked = samples.reward > 0
    np.maximum.at(last, samples.list_of_row()[clicked], samples.position[clicked])
    return last
