"""Simulated users: a known taste, a way of browsing, and the clicks and expected rewards that follow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import checked_positions, checked_table
from learner.simulate.browse import answer, expected_clicks

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Users:
    """Users who examine position k with chance w[k, k′] and click what they examined with chance γ = θ*ᵀx.

    As they stand they browse by UBM; ``Users.pbm``, ``Users.cm`` and ``Users.dcm`` make those who browse otherwise.

    Parameters
    ----------
    taste
        θ*, such that θ*ᵀx is a chance for every context x that is shown.
    examination
        w[k − 1, k′], K×K.
    continuation
        The chance to read on after a click, per position; None: a click ends nothing that the table does not end.
    """

    taste: Floats
    examination: Floats
    continuation: Floats | None = None

    @classmethod
    def pbm(cls, taste: ArrayLike, examination: ArrayLike) -> "Users":
        """Return users who examine position k with chance w[k], whatever they clicked."""
        seen = checked_positions(examination)
        return cls(np.array(taste, dtype=np.float64), np.tril(np.broadcast_to(seen[:, None], (len(seen), len(seen)))))

    @classmethod
    def cm(cls, taste: ArrayLike, positions: int) -> "Users":
        """Return users who read from the top and leave after their first click."""
        table = np.zeros((positions, positions))
        table[:, 0] = 1.0
        return cls(np.array(taste, dtype=np.float64), checked_table(table))

    @classmethod
    def dcm(cls, taste: ArrayLike, continuation: ArrayLike) -> "Users":
        """Return users who read from the top and after a click at k read on with chance ``continuation[k − 1]``."""
        stay = checked_positions(continuation)
        return cls(np.array(taste, dtype=np.float64), np.tri(len(stay)), stay)

    def attractiveness(self, contexts: Floats) -> Floats:
        """Return γ = θ*ᵀx."""
        return np.asarray(contexts @ self.taste)

    def browse(self, contexts: Floats, random: np.random.Generator) -> Floats:
        """Return the clicks (lists, K) of users who were shown ``contexts`` (lists, K, d)."""
        return answer(self.attractiveness(contexts), self.examination, random, self.continuation).clicks

    def expected_reward(self, contexts: Floats) -> Floats:
        """Return E[F(S)] = 1 − Πₖ(1 − w[k, 0] γₖ), the chance that a list (…, K, d) gets any click."""
        gamma = self.attractiveness(contexts)
        return np.asarray(1.0 - np.prod(1.0 - self.examination[: gamma.shape[-1], 0] * gamma, axis=-1))

    def expected_clicks(self, contexts: Floats) -> Floats:
        """Return the expected number of clicks on each list of ``contexts`` (lists, K, d)."""
        by_position = expected_clicks(self.attractiveness(contexts), self.examination, self.continuation)
        return np.asarray(by_position.sum(axis=1))

    def best_rows(self, candidates: Floats, size: int) -> NDArray[np.int64]:
        """Return the rows of the list with the largest expected reward: the largest γ where w[k, 0] is largest."""
        by_taste = np.argsort(-self.attractiveness(candidates), kind="stable")[:size]
        rows = np.empty_like(by_taste)
        rows[np.argsort(-self.examination[: len(by_taste), 0], kind="stable")] = by_taste
        return rows


def browsing_table(positions: int) -> Floats:
    """Return an examination table as the theorem assumes it: falling with depth, rising the closer the last click.

    >>> browsing_table(3).round(2)
    array([[0.95, 0.  , 0.  ],
           [0.55, 0.95, 0.  ],
           [0.39, 0.67, 0.95]])
    """
    distance = np.maximum(np.arange(1, positions + 1)[:, None] - np.arange(positions), 1)
    decay = np.where(np.arange(positions) > 0, 0.5, 0.8)  # without a click above, interest fades sooner
    return np.asarray(np.tril(0.95 * distance**-decay))
