"""What two models would do with the same lists."""

import numpy as np
import pytest

from learner import C2Ucb, PbmUcb, Samples
from streams.rollout import ShownLists, effect_of

K, DIM, LISTS = 4, 3, 400
TABLE = np.tril(np.full((K, K), 0.4)) + 0.4 * np.eye(K)


@pytest.fixture(scope="module")
def shown():
    """Lists in random order whose items are clicked for their first feature."""
    rng = np.random.default_rng(4)
    contexts = rng.uniform(0, 0.5, (LISTS, K, DIM)).astype(np.float32)
    clicks = (rng.random((LISTS, K)) < contexts[:, :, 0]).astype(np.float64)
    items = np.tile(np.arange(K), (LISTS, 1))
    items[::5, 3:] = -1
    clicks[::5, 3:] = 0
    return ShownLists(np.array([70, 80, 90, 95]), items, clicks, contexts)


def learned(shown, *, sign=1.0):
    model = C2Ucb(dim=DIM, positions=K, alpha=0)
    model.learn(Samples.from_clicks(shown.contexts * sign, shown.rewards))
    return model


def test_the_same_model_changes_nothing(shown):
    effect = effect_of(learned(shown), learned(shown), shown, examination=TABLE)
    assert (effect.lists, effect.reordered, effect.other_first) == (LISTS, 0.0, 0.0)
    assert (effect.cosine, effect.moved, effect.most_moved) == (pytest.approx(1.0), 0.0, [])
    assert effect.serving.value == effect.new.value
    assert effect.earned == pytest.approx(shown.rewards.sum() / LISTS)


def test_a_model_of_the_opposite_taste_reorders_and_earns_less(shown):
    effect = effect_of(learned(shown), learned(shown, sign=-1.0), shown, examination=TABLE)
    assert effect.cosine == pytest.approx(-1.0)
    assert effect.reordered > 0.9
    assert effect.new.value < effect.serving.value
    assert effect.most_moved[0][0] == int(np.argmax(np.abs(learned(shown).theta)))


def test_a_model_without_features_ranks_by_item_and_has_no_theta(shown):
    model = PbmUcb(examination=np.array([1.0, 0.7, 0.5, 0.2]), alpha=0)
    items = np.tile(shown.ids, (LISTS, 1))
    model.learn(Samples.from_clicks(np.zeros((LISTS, K, 0)), shown.rewards, items))
    effect = effect_of(learned(shown), model, shown, examination=TABLE)
    assert (effect.cosine, effect.moved) == (None, None)
    assert 0 < effect.other_first < 1
