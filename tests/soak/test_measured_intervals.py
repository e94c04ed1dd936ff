"""Offline estimates against a known truth, 1,000 logs each: no bias, and intervals that hold it where nothing warns."""

import pytest

from learner.experiments.coverage import REWARDS, ROWS, Coverage


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("lists", ROWS)
def test_what_is_not_warned_of_is_covered(lists, reward):
    found = Coverage.measured(lists, reward, 1000).found
    for name in ("UBM-IPS", "UBM-IPS, CTR_set", "UBM-DR"):
        measured = found[name]
        print(lists, reward, name, measured)
        if measured.warned < 0.5:
            assert abs(measured.bias) <= 3 * measured.bias_error  # 24 of these are looked at
            assert 0.93 <= measured.covered <= 0.97
        else:
            assert lists <= 10
