"""Users do as they are described, and a world has chances only."""

import numpy as np
import pytest

from learner.simulate import Users, World, browsing_table


def test_users_browse_as_their_table_says():
    """Click rates by position and last click agree with w·γ, which a loop over single users confirms."""
    random = np.random.default_rng(4)
    users = Users(np.array([0.6]), browsing_table(3))
    clicks = users.browse(np.ones((200_000, 3, 1)), random)
    for k in range(3):
        for last in range(k + 1):
            before = clicks[:, :k]
            lasts = np.where(before.any(axis=1), k - before[:, ::-1].argmax(axis=1), 0) if k else np.zeros(len(clicks))
            rate = clicks[lasts == last, k].mean()
            assert abs(rate - 0.6 * users.examination[k, last]) < 0.01, (k, last)


def test_expected_reward_and_best_list_are_what_enumeration_finds():
    random = np.random.default_rng(6)
    table = np.array([[0.3, 0.0, 0.0], [0.9, 0.5, 0.0], [0.5, 0.5, 0.5]])  # the second position is looked at most
    users = Users(np.array([0.4, 0.5]), table)
    candidates = random.random((5, 2))
    permutations = [(a, b, c) for a in range(5) for b in range(5) for c in range(5) if len({a, b, c}) == 3]
    rewards = {rows: float(users.expected_reward(candidates[list(rows)])) for rows in permutations}
    assert tuple(users.best_rows(candidates, 3)) == max(rewards, key=rewards.get)
    shown = np.broadcast_to(candidates[:3], (200_000, 3, 2))
    measured = users.browse(shown, random).any(axis=1).mean()
    assert abs(measured - rewards[0, 1, 2]) < 0.005


def test_a_world_without_chances_is_refused():
    with pytest.raises(ValueError, match=r"must stay between 0 and 1, got 0\.1 ± 0\.2"):
        World.random(np.random.default_rng(0), examination=browsing_table(10), mean=0.1, spread=0.2)
