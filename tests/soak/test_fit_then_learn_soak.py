"""`glimpse fit`, then learn with its table, as a user would: ten seeds of an old ranker's log, and of the shop."""

import numpy as np
import pytest
from fit_then_learn import day_one_lifts, shop_lift

from learner.experiments.summary import Mean

SEEDS = range(10)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.timeout(3600)
def test_a_fitted_table_gains_seven_tenths_of_what_the_known_one_does(tmp_path):
    lifts = [day_one_lifts(seed, tmp_path) for seed in SEEDS]
    gains = {name: float(np.mean([each[name] for each in lifts])) for name in lifts[0]}
    print(gains)
    assert gains["by glimpse fit"] >= 0.7 * gains["ubm, w known"]
    assert gains["ones"] < 0.7 * gains["ubm, w known"], "a table of ones must fail this"


@pytest.mark.timeout(7200)
def test_in_the_shop_it_is_not_below_c2ucb(tmp_path):
    lift = Mean.of([shop_lift(seed, tmp_path, lists=100_000, rounds=20_000) for seed in SEEDS])
    print(lift)
    assert lift.value > -lift.half
