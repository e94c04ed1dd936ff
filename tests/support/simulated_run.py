"""The clicks and the regret of a bandit among simulated users, round by round."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner import Bandit, Samples
from learner.simulate import World


@dataclass(frozen=True, slots=True)
class Run:
    """What one bandit earned, round by round."""

    clicks: NDArray[np.int64]  # clicks in each round's list
    regret: NDArray[np.float64]  # E[F(best list)] − E[F(shown list)] in each round

    @property
    def ctr_sum(self) -> float:
        """Clicks per list."""
        return float(self.clicks.mean())

    @property
    def ctr_set(self) -> float:
        """Share of the lists with a click."""
        return float((self.clicks > 0).mean())


def play(
    model: Bandit | None,
    world: World,
    *,
    rounds: int,
    random: np.random.Generator,
    on_round: Callable[[], object] | None = None,
) -> Run:
    """Return the run of ``model`` (None: random lists), which ranks for one user after the other and learns at once."""
    size = len(world.users.examination)
    clicks, regret = np.zeros(rounds, dtype=np.int64), np.zeros(rounds)
    for t in range(rounds):
        items, contexts = world.visit(random)
        rows = model.rank(contexts, size=size, items=items) if model else random.permutation(len(items))[:size]
        shown = contexts[rows]
        clicked = world.users.browse(shown[None], random)
        best = contexts[world.users.best_rows(contexts, size)]
        regret[t] = world.users.expected_reward(best) - world.users.expected_reward(shown)
        clicks[t] = int(clicked.sum())
        if model:
            model.learn(Samples.from_clicks(shown[None], clicked, items[rows][None]))
        if on_round:
            on_round()
    return Run(clicks, regret)
