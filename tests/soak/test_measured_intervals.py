"""Offline estimates against a known truth, 1,000 logs each: no bias, and intervals that hold it where nothing warns."""

import pytest

from learner.experiments.coverage import REWARDS, ROWS, Coverage


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("lists", ROWS)
def test_what_is_not_warned_of_is_covered(lists, reward):
    for name, measured in Coverage.measured(lists, reward, 1000).estimators.items():
        print(lists, reward, name, measured)
        quiet = round((1 - measured.warned) * measured.replications)
        if quiet >= 200:
            assert abs(measured.bias) <= 3 * measured.bias_error  # 32 of these are looked at
            assert 0.93 <= measured.trusted <= 0.97
        else:
            assert measured.warned >= 0.9
        if not 0.93 <= measured.covered <= 0.97:
            assert measured.warned >= 0.9
