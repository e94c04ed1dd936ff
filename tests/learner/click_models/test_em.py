import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_rows import single_rows

from learner import PbmUcb, Samples, UbmLinUcb
from learner.click_models import PBM, UBM
from learner.click_models.em import Cells, maximise
from learner.click_models.ids import Pairs
from learner.click_models.log import read_log

pytestmark = pytest.mark.filterwarnings("ignore:.*no list reached")

LOGS = {"short lists": (60, 4), "longer lists": (40, 9), "one list": (1, 5), "single rows": (30, 1)}


@pytest.mark.parametrize("lists, longest", LOGS.values(), ids=LOGS)
def test_ubm_agrees_with_one_row_after_the_other(twin, lists, longest):
    items, clicks, queries = twin.random_log(1, lists=lists, longest=longest)
    model = UBM(iterations=20).fit(items, clicks, queries)
    attract, exam = twin.em(items, clicks, queries, twin.ubm_cell, 20)
    for (rank, last), value in exam.items():
        assert model.examination[rank, last] == pytest.approx(value, abs=1e-12)
    keys = list(attract)
    got = model.attractiveness([item for _, item in keys], [query for query, _ in keys])
    np.testing.assert_allclose(got, [attract[key] for key in keys], rtol=0, atol=1e-12)


@pytest.mark.parametrize("lists, longest", LOGS.values(), ids=LOGS)
def test_pbm_agrees_with_one_row_after_the_other(twin, lists, longest):
    items, clicks, queries = twin.random_log(2, lists=lists, longest=longest)
    model = PBM(iterations=20).fit(items, clicks, queries)
    attract, exam = twin.em(items, clicks, queries, twin.pbm_cell, 20)
    np.testing.assert_allclose(model.examination, [exam[k] for k in range(model.positions)], rtol=0, atol=1e-12)
    keys = list(attract)
    got = model.attractiveness([item for _, item in keys], [query for query, _ in keys])
    np.testing.assert_allclose(got, [attract[key] for key in keys], rtol=0, atol=1e-12)


def test_one_iteration_by_hand():
    # From 0.5, a row without click has 0.5·0.5/(1 − 0.25) = 1/3 for both; item 1: (1 + 1)/(2 + 1), item 2: (1 + 1/3)/3.
    model = UBM(iterations=1).fit([[1, 2]], [[1, 0]])
    np.testing.assert_allclose(model.attractiveness([1, 2]), [2 / 3, 4 / 9], rtol=1e-15)
    np.testing.assert_allclose(model.examination, [[2 / 3, 0], [4 / 9, 4 / 9]], rtol=1e-15)  # [1, 0] was filled


def test_an_item_is_another_one_under_another_query():
    items, clicks = [[7], [7], [7]], [[1], [0], [0]]
    apart = PBM(iterations=1).fit(items, clicks, ["a", "b", "b"])
    np.testing.assert_allclose(apart.attractiveness([7, 7], ["a", "b"]), [2 / 3, (1 + 2 / 3) / 4])
    together = PBM(iterations=1).fit(items, clicks)
    np.testing.assert_allclose(together.attractiveness([7]), [(1 + 1 + 2 / 3) / 5])


def test_unknown_pairs_have_one_half():
    model = UBM().fit([["x", "y"]], [[1, 0]], [5])
    np.testing.assert_array_equal(model.attractiveness(["z", "x"], [5, 6]), [0.5, 0.5])
    assert model.attractiveness([], []).shape == (0,)


def test_observations_count_the_rows_behind_each_cell():
    clicks = [[1, 0, 1], [0, 0, 0], [0, 1]]
    model = UBM().fit([[1, 2, 3], [1, 2, 3], [1, 2]], clicks)
    np.testing.assert_array_equal(model.observations, [[3, 0, 0], [2, 1, 0], [1, 1, 0]])
    assert model.observations.sum() == sum(map(len, clicks))
    np.testing.assert_array_equal(PBM().fit([[1, 2, 3], [1, 2, 3], [1, 2]], clicks).observations, [3, 3, 2])


def test_unobserved_cells_have_the_mean_of_their_row_and_are_said():
    log = [[1, 2, 3], [3, 1, 2], [2, 3, 1]], [[1, 0, 1], [0, 0, 1], [0, 0, 0]]
    with pytest.warns(UserWarning, match="UBM: no list reached 1 of the examination values") as said:
        model = UBM().fit(*log)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert model.unobserved == 1
    assert model.observations[2].tolist() == [2, 1, 0]
    assert model.examination[2, 2] == pytest.approx(model.examination[2, :2].mean(), abs=1e-15)
    assert model.examination[2, 2] != 0.5
    np.testing.assert_array_equal(np.triu(model.examination, 1), 0)


def test_a_whole_table_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert UBM().fit([[1, 2], [2, 1]], [[1, 0], [0, 1]]).unobserved == 0
        assert PBM().fit([[1, 2, 3]], [[0, 0, 0]]).unobserved == 0


def test_tolerance_stops_at_the_first_small_step(twin):
    log = twin.random_log(3, lists=200, longest=5)
    fixed = UBM(iterations=7).fit(*log)
    assert fixed.iterations_done == 7
    stopped = UBM(iterations=10_000, tolerance=fixed.change).fit(*log)  # not below its own change, so one more
    assert stopped.iterations_done == 8
    assert stopped.change < fixed.change
    converged = UBM(iterations=100_000, tolerance=1e-9).fit(*log)
    assert converged.iterations_done < 100_000
    assert converged.change < 1e-9
    # A step from there goes nowhere any more.
    again = UBM(iterations=converged.iterations_done + 1).fit(*log)
    np.testing.assert_allclose(again.examination, converged.examination, rtol=0, atol=1e-9)


def test_every_step_raises_the_posterior(twin):
    """EM's promise; with (1 + Σ)/(2 + n) it climbs the likelihood times a·(1 − a)·w·(1 − w) of every parameter."""
    items, clicks, queries = twin.random_log(4, lists=100, longest=4)
    rows = sum(map(len, items))
    keys = {(query, item) for shown, query in zip(items, queries, strict=True) for item in shown}
    heights = []
    for iterations in range(1, 25):
        model = PBM(iterations=iterations).fit(items, clicks, queries)
        attract = model.attractiveness([item for _, item in keys], [query for query, _ in keys])
        every = np.concatenate((attract, model.examination))
        heights.append(rows * model.log_likelihood(items, clicks, queries) + np.log(every * (1 - every)).sum())
    assert np.all(np.diff(heights) > 0)


def simulated(examination, attractiveness, lists, seed):
    """Lists of distinct random items read by a user of the UBM."""
    rng = np.random.default_rng(seed)
    positions = len(examination)
    items = np.argsort(rng.random((lists, len(attractiveness))), axis=1)[:, :positions]
    clicks = np.zeros(items.shape, dtype=np.int64)
    last = np.zeros(lists, dtype=np.int64)
    for rank in range(positions):
        chance = attractiveness[items[:, rank]] * examination[rank, last]
        clicks[:, rank] = rng.random(lists) < chance
        last = np.where(clicks[:, rank], rank + 1, last)
    return items, clicks


# Something that always attracts and something that is always examined fix the factor that clicks alone cannot.
TRUE_ATTRACTIVENESS = np.array([1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2])
TRUE_TABLE = np.array([[1.0, 0, 0, 0], [0.7, 0.9, 0, 0], [0.5, 0.45, 0.8, 0], [0.4, 0.3, 0.5, 0.7]])


def test_ubm_recovers_the_table_that_made_the_lists():
    items, clicks = simulated(TRUE_TABLE, TRUE_ATTRACTIVENESS, lists=200_000, seed=11)
    model = UBM(iterations=2000, tolerance=1e-7).fit(items, clicks)
    np.testing.assert_allclose(model.examination, TRUE_TABLE, rtol=0, atol=0.02)
    np.testing.assert_allclose(model.attractiveness(np.arange(8)), TRUE_ATTRACTIVENESS, rtol=0, atol=0.02)


def test_pbm_recovers_the_positions_that_made_the_lists():
    by_position = np.array([1.0, 0.7, 0.4, 0.2])
    table = np.tril(np.repeat(by_position[:, np.newaxis], 4, axis=1))
    items, clicks = simulated(table, TRUE_ATTRACTIVENESS, lists=200_000, seed=12)
    model = PBM(iterations=2000, tolerance=1e-7).fit(items, clicks)
    np.testing.assert_allclose(model.examination, by_position, rtol=0, atol=0.02)
    # The same table asked of UBM: no column of a row differs from another.
    ubm = UBM(iterations=2000, tolerance=1e-7).fit(items, clicks)
    np.testing.assert_allclose(ubm.examination, table, rtol=0, atol=0.03)


@given(seed=st.integers(0, 2**32 - 1), lists=st.integers(1, 30), longest=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_any_order_of_lists_gives_the_same_bits(twin, seed, lists, longest):
    items, clicks, queries = twin.random_log(seed, lists=lists, longest=longest)
    order = np.random.default_rng(seed).permutation(lists)
    for kind in (UBM, PBM):
        one = kind(iterations=5).fit(items, clicks, queries)
        other = kind(iterations=5).fit(*([column[at] for at in order] for column in (items, clicks, queries)))
        assert one.examination.tobytes() == other.examination.tobytes()
        assert one.attractiveness(range(6), [0] * 6).tobytes() == other.attractiveness(range(6), [0] * 6).tobytes()


def test_collapsed_rows_give_what_single_rows_give(twin):
    log = read_log(*twin.random_log(5, lists=300, longest=6))
    pairs, pair = Pairs.met_in(log.items, log.queries, log.sizes)
    cell = np.nonzero(log.shown)[1]
    clicked = log.clicks[log.shown]
    collapsed = Cells.of(pair, cell, clicked, pairs=len(pairs), cells=log.positions)
    single = single_rows(collapsed)
    assert len(collapsed.count) < len(single.count) == np.count_nonzero(~clicked)
    together, apart = (maximise(cells, iterations=30) for cells in (collapsed, single))
    np.testing.assert_allclose(together.attractiveness, apart.attractiveness, rtol=0, atol=1e-12)
    np.testing.assert_allclose(together.examination, apart.examination, rtol=0, atol=1e-12)


def test_fifty_positions_are_possible():
    rng = np.random.default_rng(6)
    items = np.tile(np.arange(50), (500, 1))
    model = UBM(iterations=5).fit(items, rng.random((500, 50)) < 0.05)
    assert model.examination.shape == (50, 50)
    assert np.all(model.examination[np.tri(50, dtype=bool)] > 0)


def test_the_tables_fit_the_bandits(twin):
    items, clicks, queries = twin.random_log(7, lists=300, longest=4)
    samples = Samples.from_clicks(
        np.full((1, 4, 2), 0.5), np.array([[0.0, 1.0, 0.0, 0.0]]), items=np.array([[1, 2, 3, 4]])
    )
    ubm = UBM().fit(items, clicks, queries)
    bandit = UbmLinUcb(dim=2, examination=ubm.examination, ridge="safe")
    bandit.learn(samples)
    np.testing.assert_array_equal(bandit.examination, ubm.examination)
    pbm = PBM().fit(items, clicks, queries)
    by_item = PbmUcb(examination=pbm.examination)
    by_item.learn(samples)
    np.testing.assert_array_equal(by_item.examination, pbm.examination)


WRONG = {
    "no iterations": ({"iterations": 0}, "iterations must be an integer of at least 1, got 0"),
    "half an iteration": ({"iterations": 1.5}, "iterations must be an integer of at least 1, got 1.5"),
    "tolerance of zero": (
        {"tolerance": 0.0},
        "tolerance must be a number above 0, or None for all iterations, got 0.0",
    ),
    "tolerance is no number": ({"tolerance": float("nan")}, "tolerance must be a number above 0"),
}


@pytest.mark.parametrize("options, reason", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("kind", [UBM, PBM])
def test_wrong_options_are_refused(kind, options, reason):
    with pytest.raises(ValueError, match=reason):
        kind(**options)
