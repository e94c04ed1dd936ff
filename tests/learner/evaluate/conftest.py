"""A small world whose truth is known: three positions, six items, two policies that draw without replacement."""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

from learner.evaluate import Browsing, LoggedLists, Policy
from learner.simulate import Users, browsing_table

POSITIONS, ITEMS = 3, 6


@dataclass(frozen=True)
class World:
    gamma: np.ndarray
    table: np.ndarray
    lists: np.ndarray
    logging: Policy
    target: Policy

    def value(self, policy, metric="sum"):
        """The truth: what UBM users would give, from all lists there are."""
        rewards = Browsing(self.gamma[policy.items], self.table, metric=metric).rewards
        return float(policy.chances @ rewards.sum(axis=1))

    def draw(self, lists, random):
        return self.lists[random.choice(len(self.lists), p=self.logging.chances, size=lists)]

    def browse(self, shown, random):
        return Users(np.ones(1), self.table).browse(self.gamma[shown][..., None], random)

    def log(self, lists, seed=0):
        random = np.random.default_rng(seed)
        shown = self.draw(lists, random)
        return LoggedLists.of(shown, self.browse(shown, random))


def without_replacement(lists, scores):
    """The chance of each list when items are drawn one by one, by e^score of those that are left."""
    appeal = np.exp(scores)
    chances, left = np.ones(len(lists)), np.full(len(lists), appeal.sum())
    for k in range(lists.shape[1]):
        chances *= appeal[lists[:, k]] / left
        left = left - appeal[lists[:, k]]
    return chances / chances.sum()


@pytest.fixture(scope="session")
def world():
    gamma = np.array([0.7, 0.5, 0.4, 0.3, 0.2, 0.1])
    lists = np.array(list(permutations(range(ITEMS), POSITIONS)))
    one = np.zeros(len(lists), dtype=int)
    return World(
        gamma=gamma,
        table=browsing_table(POSITIONS),
        lists=lists,
        logging=Policy.of(lists, one, without_replacement(lists, 0.16 * np.arange(ITEMS))),  # likes the worst items
        target=Policy.of(lists, one, without_replacement(lists, 3 * gamma)),
    )
