"""The best rows: by score, ties by row, and pruning that changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learner import C2Ucb, Samples
from learner.bandits.topk import PRUNE_ROWS, Solution, best_first, row_squares, top_rows

settings.register_profile("topk", deadline=None, max_examples=80)
settings.load_profile("topk")


def trained(dim, lists=200, alpha=0.3, seed=0):
    random = np.random.default_rng(seed)
    model = C2Ucb(dim=dim, positions=5, alpha=alpha)
    contexts = random.uniform(-1, 1, (lists, 5, dim)) * random.random(dim)  # some directions are known better
    model.learn(Samples.from_clicks(contexts, random.random((lists, 5)) < 0.3))
    return model


def scores(model, x):
    return model.predict(x) + model.alpha * model.widths(x)


@given(
    x=hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=st.sampled_from([-1, -0.3, 0, 0.5])),
    size=st.integers(1, 35),
    alpha=st.sampled_from([0.0, 0.3, None]),
)
def test_order_is_by_score_and_ties_by_row(x, size, alpha):
    model = trained(3, alpha=alpha)
    rows = model.rank(x, size=size)
    assert len(rows) == len(set(rows)) == min(size, len(x))
    # scores of the grid above are equal or well apart, so rounding off the noise leaves true ties
    rounded = scores(model, x).round(9)
    assert rows.tolist() == sorted(range(len(x)), key=lambda row: (-rounded[row], row))[:size]


@pytest.mark.parametrize("dim", [2, 10, 56])
@pytest.mark.parametrize("copies", [2, 3, 997])
def test_a_candidate_given_twice_stands_in_row_order(dim, copies):
    """BLAS may round equal rows differently at different places; the order must not show it."""
    model = trained(dim)
    x = np.random.default_rng(5).uniform(-1, 1, (7, dim))
    rows = model.rank(np.tile(x, (copies, 1)), size=7 * copies)
    best = model.rank(x, size=7)
    assert rows.tolist() == [row + 7 * copy for row in best for copy in range(copies)]


@pytest.mark.parametrize("spread", ["even", "uneven", "tied"])
@pytest.mark.parametrize("dim", [3, 20])
@pytest.mark.parametrize("alpha", [0.0, 0.05, 3.0])
def test_pruning_changes_nothing(dim, spread, alpha):
    model = trained(dim, alpha=alpha)
    random = np.random.default_rng(9)
    x = random.uniform(-1, 1, (5 * PRUNE_ROWS, dim))
    if spread == "uneven":
        x *= random.random((len(x), 1)) ** 4
    if spread == "tied":
        x = x[random.integers(0, 40, len(x))]
    reference = scores(model, x).round(9)
    expected = np.lexsort((np.arange(len(x)), -reference))[:12]
    assert model.rank(x, size=12).tolist() == expected.tolist()


@pytest.mark.parametrize("rows", [3 * PRUNE_ROWS, 3 * PRUNE_ROWS + 1])
@pytest.mark.parametrize("dim", [1, 3, 10, 40])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_rows_of_length_one_are_looked_at_once_and_ranked_the_same(rows, dim, layout):
    model = trained(dim, lists=300)
    x = np.random.default_rng(4).normal(size=(rows, dim))
    x = np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), order=layout)
    squares = row_squares(x)
    assert np.allclose(squares, 1.0, rtol=0, atol=1e-14)
    expected = np.lexsort((np.arange(rows), -scores(model, x).round(9)))[:12]
    assert model.rank(x, size=12).tolist() == expected.tolist()
    held = model.rank_mapped(x, np.eye(dim), norms=np.sqrt(squares), size=12)
    assert held.tolist() == expected.tolist()


@pytest.mark.parametrize("bad", [1.0 + 1e-9, -1.1, np.nan, np.inf])
def test_a_feature_beyond_the_scale_is_refused_among_many(bad):
    x = np.zeros((2 * PRUNE_ROWS, 4))
    x[PRUNE_ROWS + 7, 2] = bad
    with pytest.raises(ValueError, match="context_scale"):
        trained(4).rank(x)


def test_before_anything_is_learned_equally_long_contexts_come_in_row_order():
    x = np.random.default_rng(1).normal(size=(3 * PRUNE_ROWS, 10))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert C2Ucb(dim=10, positions=5).rank(x, size=6).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("size", [PRUNE_ROWS - 1, PRUNE_ROWS, PRUNE_ROWS + 1, 3000, 5000, 9999, 10_000])
def test_a_list_longer_than_what_is_tried_first(size):
    model = trained(4)
    x = np.random.default_rng(3).uniform(-1, 1, (10_000, 4))
    expected = np.lexsort((np.arange(len(x)), -scores(model, x)))[:size]
    assert model.rank(x, size=size).tolist() == expected.tolist()


def test_a_long_list_out_of_many_candidates():
    model = trained(4)
    x = np.random.default_rng(2).uniform(-1, 1, (PRUNE_ROWS + 10, 4))
    assert sorted(model.rank(x, size=len(x))) == list(range(len(x)))
    assert model.rank(x[:0], size=3).tolist() == []
    assert model.rank(x[:1], size=3).tolist() == [0]


def test_best_first_takes_whole_chains():
    chain = np.array([0.0, 1e-13, 2e-13, 3e-13, -1.0, 5.0])
    assert best_first(chain, 3, slack=1.5e-13).tolist() == [5, 0, 1]
    assert best_first(chain, 3).tolist() == [5, 3, 2]
    many = np.concatenate((np.full(500, 1.0), [2.0]))
    assert best_first(many, 3).tolist() == [500, 0, 1]


def test_a_zero_alpha_needs_no_widths():
    theta, broken = np.array([1.0, 0.0]), np.full((2, 2), np.nan)
    assert top_rows(np.eye(2), Solution(theta, broken), alpha=0.0, size=2).tolist() == [0, 1]
