"""Every click model and estimator keeps what its kind promises, and a planted fault is found."""

from functools import partial

import numpy as np
import pytest

from learner.checks import BrokenInvariant, check_click_model, check_estimator
from learner.click_models import CLICK_MODELS, CM, PBM, UBM
from learner.evaluate import Guess, cascade_dr, ips, ubm_dr, ubm_ips, ubm_ips_sequential, ubm_linear

SEES_ALL = np.tri(2)


@pytest.mark.parametrize("make", ["thorough", "quick"])
@pytest.mark.parametrize("name", CLICK_MODELS)
def test_click_models_keep_their_promises(name, make):
    check_click_model(getattr(CLICK_MODELS[name], make), seed=len(name))


class OneClickTooMany(PBM):
    def _conditional(self, pair, clicks):
        return np.where(clicks, 1.0, super()._conditional(pair, clicks))


class SeesOnlyTheTop(UBM):
    def _marginal(self, pair):
        return self._attracted(pair) * self.examination[:, 0]


class Drunk(CM):
    def _learn(self, log, pair, pairs):
        return super()._learn(log, pair, pairs) * np.random.default_rng().uniform(0.5, 1)


class GrowsWorse(PBM):
    def _learn(self, log, pair, pairs):
        attractiveness = super()._learn(log, pair, pairs)
        self.examination = self.examination ** (self.iterations / 10)
        return attractiveness


MODEL_FAULTS = {
    "the chances of all click patterns add up to 1": OneClickTooMany,
    r"P\(click\) adds up all clicks above it": SeesOnlyTheTop,
    "two fits of the same lists are the same": Drunk,
    "the likelihood does not fall during a fit": GrowsWorse,
}


@pytest.mark.parametrize("invariant, kind", MODEL_FAULTS.items(), ids=MODEL_FAULTS)
def test_a_planted_fault_of_a_click_model_is_found(invariant, kind):
    with pytest.raises(BrokenInvariant, match=invariant):
        check_click_model(kind)


def cascade(log, policy):
    return cascade_dr(log, policy, predicted=np.full(policy.items.shape, 0.1))


def linear(log, policy):
    vectors = np.eye(3)
    return ubm_linear(
        log, policy, contexts=vectors[log.items], policy_contexts=vectors[policy.items], examination=SEES_ALL
    )


ESTIMATORS = {
    "IPS": ips,
    "IPS, self-normalised": partial(ips, normalise=True),
    "IPS of positions": partial(ips, over="positions"),
    "IPS of prefixes": partial(ips, over="prefixes"),
    "cascade DR": cascade,
    "UBM-IPS": partial(ubm_ips, examination=SEES_ALL),
    "UBM-DR": partial(ubm_dr, examination=SEES_ALL, guess=Guess([0.2, 0.3, 0.4])),
    "UBM, linear": linear,
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_estimators_keep_their_promises(estimator):
    check_estimator(lambda: estimator)


def test_an_estimator_that_draws_is_near_the_truth():
    check_estimator(lambda: partial(ubm_ips_sequential, examination=SEES_ALL), tolerance=0.4)


ESTIMATOR_FAULTS = {
    "clipped": partial(ips, clip=1.5),
    "for users who look less": partial(ubm_ips, examination=SEES_ALL * [[1.0], [0.5]]),
}


@pytest.mark.parametrize("estimator", ESTIMATOR_FAULTS.values(), ids=ESTIMATOR_FAULTS)
def test_a_biased_estimator_is_found(estimator):
    with pytest.raises(BrokenInvariant, match=r"the value of one list is the truth, 1.25; it is"):
        check_estimator(lambda: estimator)
