"""The Markov chain of k′ that a UBM user walks down a list, and the exposures and rewards that follow from it."""

from dataclasses import dataclass

import numpy as np

from learner.evaluate.estimate import Floats, Metric


@dataclass(frozen=True, slots=True)
class Browsing:
    """What UBM users do with lists of known attractiveness.

    An attractiveness that was estimated may exceed 1, and so may w·γ: as in the paper, such a row counts as clicked
    when k′ of the rows below is decided, while its reward stays what it is.

    >>> users = Browsing(np.array([[0.5, 1.0]]), np.array([[1.0, 0.0], [0.4, 0.8]]))
    >>> users.last_clicks[0, 1]  # P(k′ = 0), P(k′ = 1) at the second position
    array([0.5, 0.5])
    >>> users.rewards  # 0.5·1.0, and 1.0·(0.5·0.4 + 0.5·0.8)
    array([[0.5, 0.6]])
    """

    attractiveness: Floats  # γ, (m, L), the chance that a row that is examined is clicked: it moves k′
    examination: Floats  # w[k − 1, k′], at least L×L
    worth: Floats | None = None  # ρ, (m, L), what a row earns when it is examined; None: 1 for each click, so γ
    metric: Metric = "sum"  # set: a row counts only as the first that is clicked

    @property
    def last_clicks(self) -> Floats:
        """(m, L, L) P(the last click above k is at k′), k′ = 0 for none."""
        lists, positions = self.attractiveness.shape
        last = np.zeros((lists, positions, positions))
        last[:, 0, 0] = 1.0
        for k in range(positions - 1):
            click = last[:, k] * self._click(k)
            last[:, k + 1] = last[:, k] - click
            last[:, k + 1, k + 1] = click.sum(axis=1)
        return last

    @property
    def exposures(self) -> Floats:
        """(m, L) P(the row is examined) = Σ w[k, k′] P(k′); for ``set`` w[k, 0] P(k′ = 0): nothing clicked above."""
        if self.metric == "set":
            return np.asarray(self.last_clicks[:, :, 0] * self._table[:, 0])
        return np.asarray(np.einsum("mkj,kj->mk", self.last_clicks, self._table))

    @property
    def rewards(self) -> Floats:
        """(m, L) the expected reward of each row; for ``set`` as its list's first, so clicks add up to E[F(S)]."""
        return self._worth * self.exposures

    @property
    def slopes(self) -> Floats:
        """(m, L) ∂E[Σ rewards]/∂γₖ, what each row earns being given: what a click adds by moving k′ of those below."""
        lists, positions = self.attractiveness.shape
        slopes, last = np.empty((lists, positions)), self.last_clicks
        if self.metric == "set":  # a click leaves nothing to those below
            left = np.zeros(lists)
            for k in reversed(range(positions)):
                click = self._click(k)[:, 0]
                slopes[:, k] = -last[:, k, 0] * self._table[k, 0] * left * (click < 1)
                left = self._worth[:, k] * self._table[k, 0] + (1 - click) * left
            return slopes
        below = np.zeros((lists, positions + 1))  # expected reward of the rows below, by k′
        for k in reversed(range(positions)):
            click = self._click(k)
            gain = below[:, k + 1, None] - below[:, :positions]  # by a click here, in the rows below
            slopes[:, k] = (last[:, k] * self._table[k] * np.where(click < 1, gain, 0.0)).sum(axis=1)
            below[:, :positions] += self._worth[:, k, None] * self._table[k] + click * gain
        return slopes

    @property
    def _table(self) -> Floats:
        positions = self.attractiveness.shape[1]
        return self.examination[:positions, :positions]

    @property
    def _worth(self) -> Floats:
        return self.attractiveness if self.worth is None else self.worth

    def _click(self, k: int) -> Floats:
        return np.asarray(np.minimum(self.attractiveness[:, k, None] * self._table[k], 1.0))
