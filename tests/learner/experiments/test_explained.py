"""What the explaining experiments rest on: an old ranker misleads, weights undo it, and intervals are measured."""

from dataclasses import replace

import numpy as np
import pytest

from learner.bandits import UbmLinUcb
from learner.experiments.coverage import Coverage, KnownWorld
from learner.experiments.day_one import DayOne, cases, standings, steep
from learner.experiments.day_one_logs import Pages, learned, lifts, play, reordered
from learner.experiments.gap import NAMES, Gap, worlds
from learner.samples import Samples

SMALL = DayOne(table="0.95/k", lists=4000, served=500)


@pytest.fixture(scope="module")
def misled():
    """What is learned from the log of a ranker that knows nothing and always shows the same, three seeds."""
    return standings([SMALL.play(seed, wrong=True) for seed in range(3)])


def test_an_old_rankers_order_misleads_who_takes_unseen_for_refused(misled):
    assert misled["c2ucb"].likeness < 0.6 < 0.85 < misled["ubm, w known"].likeness
    assert misled["ubm, w known"].ctr_sum.value > 0.1
    assert misled["oracle"].ctr_sum.value >= misled["ubm, w known"].ctr_sum.value
    assert misled["old ranker"].ctr_sum.value < 0


def test_a_fitted_table_gains_most_of_what_the_known_one_does(misled):
    """A factor does not matter; a table of ones would gain nothing, as it is C²UCB."""
    known = misled["ubm, w known"].ctr_sum.value
    assert misled["ubm, w fitted"].ctr_sum.value > 0.7 * known
    assert misled["ubm, w times 0.3"].ctr_sum.value == pytest.approx(known, abs=0.03)


def test_a_random_ranker_misleads_nobody():
    noisy = standings([replace(SMALL, noise=3.0).play(seed) for seed in range(2)])
    assert abs(noisy["ubm, w known"].ctr_sum.value) < 0.04


def test_the_more_a_visits_candidates_have_in_common_the_less_their_order_tells():
    personal = standings([replace(SMALL, personal=1.0).play(seed) for seed in range(3)])
    plain = standings([SMALL.play(seed) for seed in range(3)])
    assert personal["c2ucb"].likeness > plain["c2ucb"].likeness + 0.1
    assert personal["ubm, w known"].ctr_sum.value < plain["ubm, w known"].ctr_sum.value


def test_who_learns_from_a_drifting_taste_is_behind_who_knows_the_last_one():
    drifted = replace(SMALL, drifting=True).play(0)
    plain = SMALL.play(0)
    assert drifted["ubm, w known"].likeness < plain["ubm, w known"].likeness
    assert drifted["oracle"] == plain["oracle"]  # served by the taste that the log ends with


@pytest.mark.parametrize("users", ["pbm", "cm", "dcm"])
def test_other_users_can_be_played(users):
    found = DayOne(users=users, lists=500, served=100, size=4, constant=users != "cm").play(0)
    assert found["oracle"].ctr_sum >= max(found[name].ctr_sum for name in found) - 1e-12


def test_the_report_has_every_row_that_was_asked_for():
    blocks = {block for block, _ in cases()}
    wanted = {"a random old ranker", "lists of K", "features", "clicks by other models", "a drifting taste"}
    assert wanted <= blocks


def test_a_feature_for_each_pair_is_what_the_learners_make_of_it():
    random = np.random.default_rng(0)
    pairs = np.argsort(random.random((60, 5)), axis=1)[:, :3]
    clicks = (random.random(pairs.shape) < 0.4) * 1.0
    table = steep(0.7, 3)
    model = UbmLinUcb(5, examination=table, ridge=1.0)
    model.learn(Samples.from_clicks(np.eye(5)[pairs], clicks))
    found = learned(Pages(pairs, clicks, np.zeros(60, dtype=int)), table, 5)["ubm, w fitted"]
    np.testing.assert_allclose(found, model.theta, atol=1e-4)


def test_a_log_whose_order_was_wrong_is_put_right():
    random = np.random.default_rng(1)
    gamma, table = np.array([0.1, 0.2, 0.3, 0.4]), steep(1.0, 4)
    order = np.array([0, 1, 2, 3])  # the worst always first, but now and then
    pairs = np.array([order if random.random() < 0.7 else random.permutation(4) for _ in range(3000)])
    clicks = (random.random(pairs.shape) < gamma[pairs] * table[:, 0]) * 1.0
    pages = Pages(pairs, clicks, np.zeros(3000, dtype=int))
    assert reordered(pages, learned(pages, table, 4)["ubm, w fitted"])[0].tolist() == [3, 2, 1, 0]
    found = lifts([play(pages, pages, seed=seed) for seed in range(3)])
    assert found["ubm, w fitted"].value >= 0
    assert found["old ranker"].value < 0


def test_the_map_has_its_cells_and_lifts_are_of_the_same_luck():
    assert len(worlds(100)) == 2 * 4 * 3 + 5
    found = Gap(1.0, 0.3, rounds=200).play(0)
    assert {name for name, *_ in found} == {*NAMES, "oracle"}
    assert found["c2ucb", "tuned", 200] == found["c2ucb", "theorem", 40] == 0.0
    assert found["oracle", "tuned", 200] > 0
    assert found == Gap(1.0, 0.3, rounds=200).play(0)


def test_intervals_are_measured_against_a_known_truth():
    """The long form, 1,000 logs of every row, is in tests/soak."""
    found = Coverage.measured(50, "mixed", 60).estimators
    for name in ("UBM-IPS", "UBM-IPS, CTR_set", "UBM-DR", "UBM-IPS, bootstrap"):
        assert abs(found[name].bias) < 3 * found[name].bias_error
        assert found[name].trusted > 0.85
        assert found[name].warned == 0
    assert found["lists, π known"].warned == 1
    sparse = Coverage.measured(3, "1", 10).estimators
    assert all(measured.warned == 1 and np.isnan(measured.trusted) for measured in sparse.values())
    world = KnownWorld.of(2, (1.0,) * 6)
    assert 0 < world.truth("set") < world.truth("sum")
