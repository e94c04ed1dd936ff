"""Lists in random order: the control that every other bucket is compared with, and a log whose chances are known."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints
from learner.bandits.bandit import Bandit, checked_count
from learner.exact import State, checked_cells
from learner.samples import Samples


class RandomLists(Bandit):
    """Shows any list with the same chance and learns nothing; it only counts its lists.

    Examples
    --------
    >>> model = RandomLists(positions=2)
    >>> model.learn(Samples.from_clicks(np.zeros((3, 2, 1)), np.zeros((3, 2))))
    >>> model.rounds, model.scores(np.zeros((4, 1)))
    (3, array([0., 0., 0., 0.]))
    """

    name = "random"
    options = recorded = ("positions", "reward_scale")
    contextual = False
    draws = True

    @classmethod
    def state_sizes(cls, dim: int, positions: int) -> dict[str, int | None]:
        """Return the length of each array of a state."""
        return {"rounds": 1}

    @property
    def theta(self) -> Floats:
        """No parameters."""
        return np.empty(0)

    def learn(self, samples: Samples) -> None:
        """Count every list of ``samples``, take back those of sign −1; on bad input nothing changes."""
        self._check_lists(samples)
        self.rounds += int(samples.sign.sum())

    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> Floats:
        """Return 0 for each candidate: none is known to be better than another."""
        return np.zeros(len(np.asarray(candidates if items is None else items)))

    def rank(
        self,
        candidates: ArrayLike,
        size: int = 12,
        items: ArrayLike | None = None,
        *,
        explore: float = 1.0,
        random: np.random.Generator | None = None,
    ) -> Ints:
        """Return ``size`` rows in random order, another one each time unless the random numbers are given."""
        drawn = (random or np.random.default_rng()).permutation(len(self.predict(candidates, items)))
        return drawn[: checked_count("size", size)]

    def state(self) -> State:
        """Return the rounds."""
        return {"rounds": np.array([self.rounds])}

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over a state that a model with the same settings returned."""
        self.rounds = int(checked_cells(state, "rounds", 1)[0])
