"""The theorem's numbers."""

import math

import numpy as np

from learner.bandits.theorem import exploration, regret_bound, safe_weight_bound, weight_bound


def test_the_theorem_in_numbers():
    table = np.array([[0.9, 0.0, 0.0], [0.8, 0.5, 0.0], [0.1, 0.7, 0.3]])
    assert math.isclose(weight_bound(table), 0.81 + 0.25 + 0.09)
    assert math.isclose(safe_weight_bound(table), 0.81 + 0.64 + 0.49)
    given_numbers = {"dim": 4, "positions": 3, "phi": 1.5, "ridge": 2.0, "beta": 5.0}
    alpha = math.sqrt(4 * math.log(1 + 1.5 * 100 / (4 * 2.0)) + 2 * math.log(300)) + math.sqrt(10)
    assert math.isclose(exploration(100, **given_numbers), alpha)
    bound = 2 * alpha * math.sqrt(2 * 100 * 3 * 4 * math.log(1 + 1.5 * 100 / (2.0 * 4))) + 1
    assert math.isclose(regret_bound(100, **given_numbers), bound)
