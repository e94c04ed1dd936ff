"""UBM with linear attractiveness: least squares and browsing written out agree, and so does a bootstrap."""

import numpy as np
import pytest

from learner.evaluate import Interval, LoggedLists, Policy, ubm_linear
from learner.simulate import World, browsing_table

K, DIM, LISTS = 4, 5, 600
TABLE = browsing_table(K)


@pytest.fixture(scope="module")
def feed():
    random = np.random.default_rng(1)
    world = World.random(random, dim=DIM, examination=TABLE, items=50, candidates=10)
    items, contexts = world.visits(random, LISTS)
    shown, wanted = np.arange(K), np.argsort(-(contexts @ world.users.taste), axis=1)[:, :K]
    rewards = world.users.browse(contexts[:, shown], random) * random.choice([0.5, 1.0], (LISTS, K))
    log = LoggedLists.of(items[:, shown], rewards, np.arange(LISTS))
    policy = Policy.of(np.take_along_axis(items, wanted, axis=1))
    vectors = {"contexts": contexts[:, shown], "policy_contexts": np.take_along_axis(contexts, wanted[..., None], 1)}
    return log, policy, vectors


def browsed(x, clicked, earned):
    """What one list gives in the mean: every k′ with its chance, position by position."""
    total, chance = 0.0, {0: 1.0}
    for k in range(K):
        below = {}
        for last, p in chance.items():
            total += p * TABLE[k, last] * max(0.0, x[k] @ earned)
            click = min(1.0, TABLE[k, last] * max(0.0, x[k] @ clicked))
            below[last] = below.get(last, 0.0) + p * (1 - click)
            below[k + 1] = below.get(k + 1, 0.0) + p * click
        chance = below
    return total


def test_the_value_is_that_of_the_formula_written_out(feed):
    log, policy, vectors = feed
    rows, given = [], []
    for number in range(LISTS):
        last = 0
        for k in range(K):
            rows.append(TABLE[k, last] * np.append(1.0, vectors["contexts"][number, k]))
            given.append((log.rewards[number, k] > 0, log.rewards[number, k]))
            last = k + 1 if log.rewards[number, k] > 0 else last
    clicked, earned = np.linalg.lstsq(np.array(rows), np.array(given, float), rcond=None)[0].T
    shown = np.insert(vectors["policy_contexts"], 0, 1.0, axis=2)
    slow = np.mean([browsed(x, clicked, earned) for x in shown])
    found = ubm_linear(log, policy, examination=TABLE, **vectors)
    assert found.value == pytest.approx(slow, rel=1e-7)


@pytest.mark.parametrize("metric", ["sum", "set"])
def test_asymptotic_and_bootstrap_errors_agree(feed, metric):
    log, policy, vectors = feed
    plain, drawn = (
        ubm_linear(log, policy, examination=TABLE, metric=metric, interval=interval, **vectors)
        for interval in (Interval(), Interval(draws=300))
    )
    assert drawn.value == plain.value
    assert drawn.standard_error == pytest.approx(plain.standard_error, rel=0.15)


def test_vectors_and_contexts_must_fit(feed):
    log, policy, vectors = feed
    with pytest.raises(ValueError, match="policy_contexts must be vectors of one length"):
        ubm_linear(log, policy, examination=TABLE, contexts=vectors["contexts"], policy_contexts=np.zeros((1, K, DIM)))
    few = Policy.of(policy.items[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="a list for each logged context"):
        ubm_linear(
            log, few, examination=TABLE, contexts=vectors["contexts"], policy_contexts=vectors["policy_contexts"][:3]
        )
