"""DCM-LinUCB: the dependent click model reads on after a click, and is known to have read down to the last one."""

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from learner.bandits.c2ucb import FullWeightBandit
from learner.exact import State, checked_cells
from learner.samples import Samples


class DcmLinUcb(FullWeightBandit):
    """Learns from the rows up to the last click, from all when there is none.

    ``clicks`` and ``terminations`` count, per position, the clicks and how many of them were their list's last: the
    chance that a user is satisfied after a click there. They stand beside A and b and never enter them.
    """

    name = "dcm-linucb"

    def __init__(self, dim: int, *, positions: int, **options: float | None) -> None:
        super().__init__(dim, positions=positions, **options)  # type: ignore[arg-type]
        self.clicks = np.zeros(self.positions, dtype=np.int64)
        self.terminations = np.zeros(self.positions, dtype=np.int64)

    @property
    def satisfaction(self) -> NDArray[np.float64]:
        """The share of clicks at each position that were the last of their list; 0 where none was seen."""
        return self.terminations / np.maximum(self.clicks, 1)

    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples`` (take back those of sign −1); on bad input nothing changes."""
        super().learn(samples)
        last = last_clicks(samples)
        clicked = samples.reward > 0
        sign = samples.row_sign()
        signs = np.ones(samples.rows, dtype=np.int64) if sign is None else sign
        np.add.at(self.clicks, samples.position[clicked] - 1, signs[clicked])
        np.add.at(self.terminations, last[last > 0] - 1, samples.sign[last > 0])

    def _weigh(self, samples: Samples) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64]]:
        last = last_clicks(samples)[samples.list_of_row()]
        rows = (samples.position <= last) | (last == 0)
        return rows, np.ones(np.count_nonzero(rows))

    def state(self) -> State:
        """Return the sums, the rounds and the counts as integers."""
        return {**super().state(), "clicks": self.clicks.copy(), "terminations": self.terminations.copy()}

    def restore(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Take over a state that a model with the same settings returned."""
        clicks, terminations = (checked_cells(state, name, self.positions) for name in ("clicks", "terminations"))
        super().restore(state)
        self.clicks, self.terminations = clicks.copy(), terminations.copy()

    def merge(self, other: Self) -> None:
        """Add what another model with the same settings learned from other lists."""
        super().merge(other)
        self.clicks += other.clicks
        self.terminations += other.terminations


def last_clicks(samples: Samples) -> NDArray[np.int64]:
    """Return the position of each list's last click, or 0."""
    last = np.zeros(len(samples), dtype=np.int64)
    clicked = samples.reward > 0
    np.maximum.at(last, samples.list_of_row()[clicked], samples.position[clicked])
    return last
