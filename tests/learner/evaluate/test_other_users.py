"""Users who do not browse by UBM: the bias is measured and printed, not hidden."""

import numpy as np
import pytest

from learner.click_models import UBM
from learner.evaluate import Browsing, LoggedLists, ips, ubm_ips
from learner.simulate import Users

REPLICATIONS, LISTS = 300, 500
GOES_ON = np.array([0.5, 0.6, 0.7])  # after a click, by position


def dcm(world, shown, random):
    """Clicks of users who read on until they are satisfied, and the expected clicks of each list."""
    gamma = world.gamma[shown]
    clicks, reading = np.zeros(shown.shape), np.ones(len(shown), dtype=bool)
    for k in range(shown.shape[1]):
        clicked = reading & (random.random(len(shown)) < gamma[:, k])
        clicks[:, k] = clicked
        reading &= ~clicked | (random.random(len(shown)) < GOES_ON[k])
    going_on = np.cumprod(1 - gamma * (1 - GOES_ON), axis=1)
    return clicks, (gamma * np.hstack([np.ones((len(shown), 1)), going_on[:, :-1]])).sum(axis=1)


def pbm(world, shown, random):
    """Clicks of users who look at a position whatever they clicked: UBM with equal columns."""
    table = np.tril(np.tile(world.table[:, :1], (1, shown.shape[1])))
    clicks = Users(np.ones(1), table).browse(world.gamma[shown][..., None], random)
    return clicks, Browsing(world.gamma[shown], table).rewards.sum(axis=1)


def contrast(world, shown, random):
    """Clicks of users to whom an item under a better one looks half as good."""
    gamma = world.gamma[shown]
    gamma[:, 1:] *= np.where(world.gamma[shown[:, :-1]] > gamma[:, 1:], 0.5, 1.0)
    clicks = Users(np.ones(1), world.table).browse(gamma[..., None], random)
    return clicks, Browsing(gamma, world.table).rewards.sum(axis=1)


CASES = {"PBM": (pbm, False), "DCM": (dcm, True), "contrast": (contrast, True)}


@pytest.mark.parametrize("users, biased", CASES.values(), ids=CASES)
def test_the_bias_of_each_estimator_is_measured(world, users, biased, record_property):
    random = np.random.default_rng(5)
    shown = world.draw(REPLICATIONS * LISTS, random)
    clicks, _ = users(world, shown, random)
    truth = float(world.target.chances @ users(world, world.lists, random)[1])
    table = UBM().fit(shown, clicks).examination  # w as it would be learned before, from such users
    logs = [LoggedLists.of(*part) for part in zip(*(np.split(x, REPLICATIONS) for x in (shown, clicks)), strict=True)]
    known = {"logging": world.logging}
    makers = {
        "UBM-IPS": lambda log: ubm_ips(log, world.target, examination=table),
        "item-position IPS": lambda log: ips(log, world.target, over="positions", **known),
        "cascade IPS": lambda log: ips(log, world.target, over="prefixes", **known),
        "IPS on sets": lambda log: ips(log, world.target, **known),
    }
    biases, errors, squared = {}, {}, {}
    for name, make in makers.items():
        values = np.array([make(log).value for log in logs])
        biases[name], errors[name] = values.mean() - truth, values.std() / np.sqrt(len(values))
        squared[name] = np.mean((values - truth) ** 2)
        print(f"{name}: truth {truth:.4f}, bias {biases[name]:+.4f} ± {errors[name]:.4f}, MSE {squared[name]:.5f}")
        record_property(f"bias of {name}", float(biases[name]))
    for name in ("IPS on sets", "cascade IPS"):  # right for all of these users
        assert abs(biases[name]) <= 3 * errors[name]
    assert (abs(biases["UBM-IPS"]) > 3 * errors["UBM-IPS"]) == biased
    assert squared["UBM-IPS"] < squared["IPS on sets"]  # a little bias can still err less
