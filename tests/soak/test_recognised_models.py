"""`glimpse fit` names the click model that users follow: twenty logs of each."""

import pytest
from simulated_clicks import SPECIAL_CASES, browsed_log, is_right

from streams.offline.fit import fit


@pytest.mark.timeout(3600)
def test_the_true_model_is_named_95_times_of_100():
    told = {(model, seed): fit(browsed_log(model, seed)).tied for model in SPECIAL_CASES for seed in range(20)}
    wrong = {key: tied for key, tied in told.items() if not is_right(key[0], tied)}
    print(wrong)
    assert len(wrong) <= 5
