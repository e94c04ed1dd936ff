"""Learning that means something: regret in a world whose taste is known."""

import numpy as np
import pytest
from simulated_run import play

from learner import C2Ucb, CmLinUcb, DcmLinUcb, UbmLinUcb
from learner.bandits import regret_bound
from learner.simulate import World, browsing_table

K = DIM = 10
T = 8000
ALPHA = 0.3  # one constant for every algorithm
TABLE = browsing_table(K)


def world(seed):
    return World.random(np.random.default_rng(seed), dim=DIM, examination=TABLE)


def run(model, seed, rounds=T):
    return play(model, world(seed), rounds=rounds, random=np.random.default_rng(1000 + seed))


@pytest.mark.parametrize("seed", range(4))
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
    record_property("bound_over_regret", float(looseness))
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


def test_the_same_seed_gives_the_same_run():
    runs = [run(UbmLinUcb(DIM, examination=TABLE, alpha=ALPHA), 3, rounds=200) for _ in range(2)]
    assert np.array_equal(runs[0].clicks, runs[1].clicks)
    assert runs[0].ctr_sum >= runs[0].ctr_set > 0
