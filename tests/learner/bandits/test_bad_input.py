"""Bad input is refused by name, and leaves a model exactly as it was."""

import numpy as np
import pytest

from learner import C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, Samples, UbmLinUcb
from learner.bandits import TheoremWarning

K, DIM = 3, 2
TABLE = np.tril(np.full((K, K), 0.5))
NAN = float("nan")
MODELS = {
    "ubm-linucb": lambda: UbmLinUcb(dim=DIM, examination=TABLE),
    "c2ucb": lambda: C2Ucb(dim=DIM, positions=K),
    "cm-linucb": lambda: CmLinUcb(dim=DIM, positions=K),
    "dcm-linucb": lambda: DcmLinUcb(dim=DIM, positions=K),
    "pbm-ucb": lambda: PbmUcb(examination=TABLE[:, 0]),
}
LINEAR = [name for name in MODELS if name != "pbm-ucb"]


def lists(dim=DIM, depth=K, context=0.5, reward=1.0):
    items = np.arange(2 * depth).reshape(2, depth)
    return Samples.from_clicks(np.full((2, depth, dim), context), np.full((2, depth), reward), items)


def refused(name, samples, message):
    model = MODELS[name]()
    model.learn(lists())
    before = model.sha256()
    with pytest.raises(ValueError, match=message):
        model.learn(samples)
    assert model.sha256() == before
    assert model.rounds == 2


@pytest.mark.parametrize("name", LINEAR)
def test_wrong_width(name):
    refused(name, lists(dim=3), r"context must have 2 columns, got shape \(6, 3\)")


@pytest.mark.parametrize("name", LINEAR)
def test_contexts_beyond_the_scale(name):
    refused(name, lists(context=-1.0000001), r"context\[0, 0\] is -1.0000001; features lie within context_scale ±1.0")


@pytest.mark.parametrize("name", MODELS)
def test_positions_beyond_k(name):
    refused(name, lists(depth=4), r"position\[3\] is 4; this model knows positions 1 to 3")


@pytest.mark.parametrize("name", MODELS)
def test_rewards_beyond_the_scale(name):
    refused(name, lists(reward=1.5), r"reward\[0\] is 1.5; rewards lie within reward_scale 0 to 1.0")


def test_a_new_item_is_no_error_and_comes_first():
    model = MODELS["pbm-ucb"]()
    model.learn(lists())
    assert model.rank(items=[0, 77, 1], size=3)[0] == 1
    assert model.predict(items=[77]).tolist() == [0.5]


def test_a_context_free_model_needs_items():
    unnamed = Samples.from_clicks(np.zeros((1, K, DIM)), np.zeros((1, K)))
    refused("pbm-ucb", unnamed, r"item\[0\] is -\d+; a context-free model needs item ids")
    with pytest.raises(ValueError, match="ranks item ids, and got none"):
        MODELS["pbm-ucb"]().rank(np.zeros((4, DIM)))
    with pytest.raises(ValueError, match="items must be one row of whole numbers"):
        MODELS["pbm-ucb"]().predict(items=[0.5])


CANDIDATES = {
    "NaN": ([[0.1, 0.2], [NAN, 0.2]], r"candidates\[1, 0\] is nan"),
    "infinity": ([[0.1, float("inf")]], r"candidates\[0, 1\] is inf"),
    "beyond the scale": ([[0.1, -1.5]], r"candidates\[0, 1\] is -1.5; features lie within context_scale ±1.0"),
    "wrong width": ([[0.1, 0.2, 0.3]], r"candidates must have 2 columns, got shape \(1, 3\)"),
    "one dimension": ([0.1, 0.2], r"candidates must have 2 columns, got shape \(2,\)"),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("candidates, message", CANDIDATES.values(), ids=CANDIDATES)
def test_bad_candidates(name, candidates, message):
    model = MODELS[name]()
    for call in (model.rank, model.predict, model.widths):
        with pytest.raises(ValueError, match=message):
            call(candidates)


@pytest.mark.parametrize("name", MODELS)
def test_lists_of_no_length_are_refused(name):
    with pytest.raises(ValueError, match="size must be"):
        MODELS[name]().rank(np.zeros((4, DIM)), size=0, items=[1, 2, 3, 4])


TABLES = {
    "a weight above 1": ([[1.0, 0.0], [0.5, 1.5]], r"examination\[1, 1\] is 1.5; a chance lies in \[0, 1\]"),
    "a negative weight": ([[1.0, 0.0], [-0.5, 0.5]], r"examination\[1, 0\] is -0.5"),
    "no number": ([[NAN]], r"examination\[0, 0\] is nan"),
    "not square": ([[1.0, 0.0]], r"got shape \(1, 2\)"),
    "too long": (np.zeros((51, 51)), r"K from 1 to 50; got shape \(51, 51\)"),
}


@pytest.mark.parametrize("table, message", TABLES.values(), ids=TABLES)
def test_bad_tables(table, message):
    with pytest.raises(ValueError, match=message):
        UbmLinUcb(dim=DIM, examination=table)


def test_bad_chances_per_position():
    with pytest.raises(ValueError, match=r"examination\[1\] is 2.0"):
        PbmUcb(examination=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"one chance per position"):
        PbmUcb(examination=TABLE)


SETTINGS = {
    "alpha": ({"alpha": -1.0}, "alpha must be a number at least 0.0, got -1.0"),
    "ridge": ({"ridge": 0.0}, "ridge must be a number greater than 0.0, got 0.0"),
    "ridge by name": ({"ridge": "large"}, "ridge must be a number, None for .* or \"safe\"; got 'large'"),
    "beta": ({"beta": NAN}, "beta must be a number at least 0.0, got nan"),
    "context_scale": ({"context_scale": 0.0}, "context_scale must be a number greater than 0.0"),
    "reward_scale": ({"reward_scale": -2.0}, "reward_scale must be a number greater than 0.0"),
}


@pytest.mark.parametrize("model", [lambda **o: UbmLinUcb(examination=TABLE, **o), lambda **o: C2Ucb(positions=K, **o)])
@pytest.mark.parametrize("options, message", SETTINGS.values(), ids=SETTINGS)
def test_bad_settings(model, options, message):
    with pytest.raises(ValueError, match=message):
        model(dim=DIM, **options)


def test_models_with_other_settings_do_not_merge():
    model = C2Ucb(dim=DIM, positions=K)
    with pytest.raises(ValueError, match=r"cannot be merged: ridge 3.0 and 7.0"):
        model.merge(C2Ucb(dim=DIM, positions=K, ridge=7))
    with pytest.raises(ValueError, match=r"cannot be merged: algorithm 'c2ucb' and 'cm-linucb'"):
        model.merge(CmLinUcb(dim=DIM, positions=K))
    with pytest.raises(ValueError, match="cannot be merged"):
        PbmUcb(examination=[1.0]).merge(PbmUcb(examination=[0.5]))


@pytest.mark.parametrize("name", MODELS)
def test_a_broken_state_is_refused_and_changes_nothing(name):
    model = MODELS[name]()
    model.learn(lists())
    before = model.sha256()
    for missing in model.state():
        state = model.state()
        del state[missing]
        with pytest.raises(ValueError, match=f"the state has no '{missing}'"):
            MODELS[name]().restore(state)
        with pytest.raises(ValueError, match=f"the state has no '{missing}'"):
            model.restore(state)
        assert model.sha256() == before


def test_taking_back_more_than_was_learned_is_said_when_theta_is_asked_for():
    taken = lists(context=1.0)
    model = C2Ucb(dim=DIM, positions=K)
    for _ in range(3):
        model.learn(Samples.from_clicks(np.ones((2, K, DIM)), np.ones((2, K)), sign=[-1, -1]))
    with pytest.raises(ArithmeticError, match="more was taken back than learned"):
        _ = model.theta
    for _ in range(3):
        model.learn(taken)
    assert model.theta.tolist() == [0.0, 0.0]


def test_a_table_that_does_not_grow_with_the_last_click_is_said():
    falling = np.array([[1.0, 0.0], [0.9, 0.4]])
    with pytest.warns(TheoremWarning, match=r"Σₖ max w² = 1.810 exceeds φ′ = 1.160"):
        model = UbmLinUcb(dim=DIM, examination=falling)
    assert model.ridge == model.phi == pytest.approx(1.16)
    safe = UbmLinUcb(dim=DIM, examination=falling, ridge="safe")
    assert safe.ridge == safe.phi == pytest.approx(1.81)
