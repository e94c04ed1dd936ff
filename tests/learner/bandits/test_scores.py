"""Scores are what a model ranks by; a model that draws by lot has none."""

import numpy as np
import pytest

from learner import C2Ucb, PbmUcb, RandomLists, Samples


def samples(random):
    items = np.array([random.permutation(8)[:3] for _ in range(200)])
    return Samples.from_clicks(random.uniform(-1, 1, (200, 3, 4)), random.integers(0, 2, (200, 3)), items)


MODELS = {
    "linear": lambda: C2Ucb(dim=4, positions=3, alpha=0.7),
    "linear, by the estimate alone": lambda: C2Ucb(dim=4, positions=3, alpha=0.0),
    "context-free": lambda: PbmUcb(examination=[1.0, 0.9, 0.8], alpha=0.1),
}


@pytest.mark.parametrize("new_model", MODELS.values(), ids=MODELS)
def test_the_best_scores_are_ranked_first(new_model):
    random = np.random.default_rng(1)
    model = new_model()
    model.learn(samples(random))
    candidates, items = random.uniform(-1, 1, (8, 4)), random.permutation(8)
    scores = model.scores(candidates, items=items)
    assert np.argsort(-scores).tolist() == model.rank(candidates, size=8, items=items).tolist()


def test_a_score_of_an_unknown_item_stays_a_number_that_noise_can_move():
    assert PbmUcb(examination=[1.0], alpha=0.1).scores(items=[1, 2]).tolist() == [1.0, 1.0]


def test_lists_by_lot_are_all_alike_and_only_counted():
    model, random = RandomLists(positions=3), np.random.default_rng(2)
    firsts = np.bincount([model.rank(np.zeros((5, 2)), size=3, random=random)[0] for _ in range(5000)])
    assert np.abs(firsts / 5000 - 0.2).max() < 0.03
    assert len({tuple(model.rank(np.zeros((40, 2)), size=3)) for _ in range(20)}) > 10
    assert len(set(model.rank(np.zeros((5, 2)), size=9))) == 5
    model.learn(samples(np.random.default_rng(1)))
    assert (model.rounds, len(model.theta), list(model.state())) == (200, 0, ["rounds"])
    with pytest.raises(ValueError, match="position"):
        RandomLists(positions=2).learn(samples(np.random.default_rng(1)))
