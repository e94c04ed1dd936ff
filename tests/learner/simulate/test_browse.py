"""Users of all four click models do what an enumeration of every possible list of clicks says."""

from itertools import product

import numpy as np
import pytest

from learner.click_models import CM, DCM, PBM, UBM
from learner.simulate import Users, browsing_table, expected_clicks

TASTE = np.array([0.9, 0.5, 0.7])
CONTEXTS = np.eye(3)[None]  # γ of the three positions is the taste itself
STAY = [0.6, 0.3, 0.9]
USERS = {
    "ubm": Users(TASTE, browsing_table(3)),
    "pbm": Users.pbm(TASTE, [0.9, 0.5, 0.3]),
    "cm": Users.cm(TASTE, 3),
    "dcm": Users.dcm(TASTE, STAY),
}


def chance_of(name, clicks):
    """The chance of these clicks, straight from the model's definition."""
    chance, last, reading = 1.0, 0, 1.0  # reading: P(still reading | the clicks so far)
    for k, clicked in enumerate(clicks):
        seen = {"ubm": browsing_table(3)[k, last], "pbm": [0.9, 0.5, 0.3][k], "cm": float(last == 0), "dcm": reading}[
            name
        ]
        chance *= TASTE[k] * seen if clicked else 1 - TASTE[k] * seen
        if clicked:
            last, reading = k + 1, STAY[k]
        else:
            reading = reading * (1 - TASTE[k]) / (1 - TASTE[k] * reading)
    return chance


@pytest.mark.parametrize("name", USERS)
def test_clicks_come_as_often_as_the_model_says(name):
    clicks = USERS[name].browse(np.broadcast_to(CONTEXTS, (200_000, 3, 3)), np.random.default_rng(1))
    for wanted in product((0, 1), repeat=3):
        assert abs((clicks == wanted).all(axis=1).mean() - chance_of(name, wanted)) < 0.005, wanted


@pytest.mark.parametrize("name", USERS)
def test_expected_clicks_and_reward_are_what_enumeration_finds(name):
    every = list(product((0, 1), repeat=3))
    chances = np.array([chance_of(name, clicks) for clicks in every])
    users = USERS[name]
    by_position = expected_clicks(TASTE[None], users.examination, users.continuation)
    np.testing.assert_allclose(by_position[0], chances @ np.array(every))
    np.testing.assert_allclose(users.expected_clicks(CONTEXTS), [chances @ np.sum(every, axis=1)])
    np.testing.assert_allclose(users.expected_reward(CONTEXTS), [1 - chance_of(name, (0, 0, 0))])


@pytest.mark.parametrize("name, model", [("ubm", UBM), ("pbm", PBM), ("cm", CM), ("dcm", DCM)])
def test_the_model_that_users_browse_by_explains_them_best(name, model):
    random = np.random.default_rng(2)
    items = random.integers(20, size=(20_000, 3))
    taste = random.uniform(0.1, 0.9, size=20)
    users = {
        "ubm": Users(taste, browsing_table(3)),
        "pbm": Users.pbm(taste, [0.9, 0.5, 0.3]),
        "cm": Users.cm(taste, 3),
        "dcm": Users.dcm(taste, STAY),
    }[name]
    clicks = users.browse(np.eye(20)[items], random)
    fitted = {each: each().fit(items, clicks).log_likelihood(items, clicks) for each in (UBM, PBM, CM, DCM)}
    # DCM counts a user as gone at the last click, and PBM is a special UBM: ties within the noise are fair
    assert fitted[model] > max(fitted.values()) - 0.01, fitted
