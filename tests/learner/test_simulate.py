"""Learning that means something: regret in a world whose taste is known."""

import numpy as np
import pytest

from learner import C2Ucb, CmLinUcb, DcmLinUcb, UbmLinUcb
from learner.bandits import regret_bound
from learner.simulate import Users, World, browsing_table, play

K = DIM = 10
T = 8000
ALPHA = 0.3  # one constant for every algorithm
TABLE = browsing_table(K)


def world(seed):
    return World.random(np.random.default_rng(seed), dim=DIM, examination=TABLE)


def run(model, seed, rounds=T):
    return play(model, world(seed), rounds=rounds, random=np.random.default_rng(1000 + seed))


@pytest.mark.parametrize("seed", range(10))
def test_ubm_linucb_has_half_of_random_regret_at_most_and_it_flattens(seed):
    regret = run(UbmLinUcb(DIM, examination=TABLE, alpha=ALPHA), seed).regret.cumsum()
    assert regret[-1] <= 0.5 * run(None, seed).regret.sum()
    assert np.log2(regret[-1] / regret[T // 2 - 1]) <= 0.6


def test_with_the_papers_alpha_the_regret_stays_under_the_bound(record_property):
    model = UbmLinUcb(DIM, examination=TABLE)
    regret = run(model, 0).regret.cumsum()
    bound = [
        regret_bound(t, dim=DIM, positions=K, phi=model.phi, ridge=model.ridge, beta=model.beta)
        for t in range(1, T + 1)
    ]
    assert (regret <= bound).all()
    looseness = bound[-1] / regret[-1]
    record_property("bound_over_regret", looseness)
    assert looseness > 100  # a loose bound, as the README says


def test_weighing_by_examination_finds_the_taste_that_the_others_miss():
    taste = world(0).users.taste
    options = {"positions": K, "alpha": ALPHA}
    models = [UbmLinUcb(DIM, examination=TABLE, alpha=ALPHA)]
    models += [C2Ucb(DIM, **options), CmLinUcb(DIM, **options), DcmLinUcb(DIM, **options)]
    for model in models:
        run(model, 0, rounds=3000)
    distances = [np.linalg.norm(model.theta - taste) for model in models]
    assert distances[0] < 0.5 * min(distances[1:])


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


def test_the_same_seed_gives_the_same_run():
    runs = [run(UbmLinUcb(DIM, examination=TABLE, alpha=ALPHA), 3, rounds=200) for _ in range(2)]
    assert np.array_equal(runs[0].clicks, runs[1].clicks)
    assert runs[0].ctr_sum >= runs[0].ctr_set > 0


def test_a_world_without_chances_is_refused():
    with pytest.raises(ValueError, match=r"must stay between 0 and 1, got 0\.1 ± 0\.2"):
        World.random(np.random.default_rng(0), examination=TABLE, mean=0.1, spread=0.2)
