"""The same numbers as Open Bandit Pipeline 0.5.7 (its slate estimators), worked out there once and carried here."""

import numpy as np
import pytest

from learner.evaluate import LoggedLists, Policy, cascade_dr, ips

LISTS = np.array([[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]])
LOGGING = Policy.of(LISTS, np.zeros(6, dtype=int), [0.1, 0.1, 0.2, 0.1, 0.3, 0.2])
TARGET = Policy.of(LISTS, np.zeros(6, dtype=int), [0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
LOG = LoggedLists.of(
    LISTS[[0, 0, 1, 2, 3, 3, 4, 4, 5, 5]],
    [[1, 0], [0, 1], [1, 1], [0, 1], [0, 0], [0, 1], [1, 0], [0, 0], [0, 1], [0, 0]],
)
GUESS = [[0.6, 0.2], [0.6, 0.1], [0.4, 0.4], [0.4, 0.1], [0.2, 0.5], [0.2, 0.3]]

# what they call SIPS, IIPS, RIPS, and the same self-normalised
REFERENCE = {
    ("lists", False): 1.2833333333333332,
    ("positions", False): 1.1666666666666667,
    ("prefixes", False): 1.29,
    ("lists", True): 1.013157894736842,
    ("positions", True): 0.9849629401596056,
    ("prefixes", True): 1.0383862548934317,
}


@pytest.mark.parametrize("over, normalise", REFERENCE)
def test_ips(over, normalise):
    found = ips(LOG, TARGET, over=over, logging=LOGGING, normalise=normalise)
    assert found.value == pytest.approx(REFERENCE[over, normalise], abs=1e-12)


def test_cascade_dr():
    found = cascade_dr(LOG, TARGET, predicted=GUESS, logging=LOGGING)
    assert found.value == pytest.approx(1.1346666666666667, abs=1e-12)
