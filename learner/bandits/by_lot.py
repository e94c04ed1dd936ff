"""Lists drawn by lot: the control that every other bucket is compared with, and a log whose chances are known."""

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.bandits.linear import Settings, checked_count, checked_number
from learner.exact import State, checked_cells, state_sha256
from learner.samples import Samples, refuse


class RandomLists:
    """Shows any list with the same chance and learns nothing; it only counts its lists.

    Parameters
    ----------
    positions
        K, the longest list that is shown.
    reward_scale
        The largest reward.

    Examples
    --------
    >>> model = RandomLists(positions=2)
    >>> model.learn(Samples.from_clicks(np.zeros((3, 2, 1)), np.zeros((3, 2))))
    >>> model.rounds, model.scores(np.zeros((4, 1)))
    (3, array([0., 0., 0., 0.]))
    """

    name: ClassVar[str] = "random"
    dim: ClassVar[int] = 0
    alpha: ClassVar[float] = 0.0

    def __init__(self, *, positions: int, reward_scale: float = 1.0) -> None:
        self.positions = checked_count("positions", positions)
        self.reward_scale = checked_number("reward_scale", reward_scale, above=0.0)
        self.rounds = 0

    @property
    def theta(self) -> NDArray[np.float64]:
        """No parameters."""
        return np.empty(0)

    def learn(self, samples: Samples) -> None:
        """Count every list of ``samples``, take back those of sign −1; on bad input nothing changes."""
        if samples.deepest > self.positions:
            bad = samples.position > self.positions
            refuse("position", samples.position, bad, f"this model knows positions 1 to {self.positions}")
        if samples.largest_reward > self.reward_scale:
            bad = samples.reward > self.reward_scale
            refuse("reward", samples.reward, bad, f"rewards lie within reward_scale 0 to {self.reward_scale}")
        self.rounds += int(samples.sign.sum())

    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return 0 for each candidate: none is known to be better than another."""
        return np.zeros(len(np.asarray(candidates if items is None else items)))

    def scores(
        self, candidates: ArrayLike, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> NDArray[np.float64]:
        """Return the same for each candidate."""
        return self.predict(candidates, items)

    def rank(
        self,
        candidates: ArrayLike,
        size: int = 12,
        items: ArrayLike | None = None,
        *,
        explore: float = 1.0,
        random: np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Return ``size`` rows by lot, by other random numbers each time unless these are given."""
        drawn = (random or np.random.default_rng()).permutation(len(self.predict(candidates, items)))
        return drawn[: checked_count("size", size)]

    def settings(self) -> Settings:
        """Return all that must agree before states can be merged or restored."""
        return {"algorithm": self.name, "positions": self.positions, "reward_scale": self.reward_scale}

    def state(self) -> State:
        """Return the rounds."""
        return {"rounds": np.array([self.rounds])}

    def restore(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Take over a state that a model with the same settings returned."""
        self.rounds = int(checked_cells(state, "rounds", 1)[0])

    def sha256(self) -> str:
        """Return the hash of settings and state that anyone with the same lists arrives at."""
        return state_sha256(self.settings(), self.state())

    def merge(self, other: Self) -> None:
        """Add what another model with the same settings counted on other lists."""
        if self.settings() != other.settings():
            raise ValueError(f"models with different settings cannot be merged: {self.settings()}, {other.settings()}")
        self.rounds += other.rounds
