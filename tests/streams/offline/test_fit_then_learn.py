"""`glimpse fit`, then learn with its table: a short form; ten seeds and the shop's 100,000 lists are in tests/soak."""

import pytest
from fit_then_learn import day_one_lifts


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fitted_table_gains_most_of_what_the_known_one_does(tmp_path):
    lifts = day_one_lifts(0, tmp_path, lists=12_000)
    assert lifts["ubm, w known"] > 0.1
    assert lifts["by glimpse fit"] > 0.7 * lifts["ubm, w known"]
    assert lifts["ones"] < 0.7 * lifts["ubm, w known"], "a table of ones is C²UCB"
