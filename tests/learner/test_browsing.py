"""The previous click, tables, and the theorem's numbers."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learner.browsing import checked_table, previous_click, table_hash
from learner.theorem import exploration, regret_bound, safe_weight_bound, weight_bound


@given(hnp.arrays(np.bool_, st.tuples(st.integers(0, 4), st.integers(1, 8))))
def test_previous_click_agrees_with_a_loop(clicks):
    expected = []
    for row in clicks:
        last, found = 0, []
        for position, clicked in enumerate(row, start=1):
            found.append(last)
            last = position if clicked else last
        expected.append(found)
    assert previous_click(clicks).tolist() == expected


def test_equal_tables_have_equal_hashes_whatever_stands_above_the_diagonal():
    table = np.tril(np.random.default_rng(0).random((4, 4)))
    noisy = table + np.triu(np.full((4, 4), np.nan), 1)
    assert table_hash(checked_table(table)) == table_hash(checked_table(noisy))
    assert table_hash(checked_table(-0.0 * table)) == table_hash(checked_table(0.0 * table))
    assert table_hash(checked_table(table)) != table_hash(checked_table(table * 0.5))


def test_the_theorem_in_numbers():
    table = np.array([[0.9, 0.0, 0.0], [0.8, 0.5, 0.0], [0.1, 0.7, 0.3]])
    assert math.isclose(weight_bound(table), 0.81 + 0.25 + 0.09)
    assert math.isclose(safe_weight_bound(table), 0.81 + 0.64 + 0.49)
    given_numbers = {"dim": 4, "positions": 3, "phi": 1.5, "ridge": 2.0, "beta": 5.0}
    alpha = math.sqrt(4 * math.log(1 + 1.5 * 100 / (4 * 2.0)) + 2 * math.log(300)) + math.sqrt(10)
    assert math.isclose(exploration(100, **given_numbers), alpha)
    bound = 2 * alpha * math.sqrt(2 * 100 * 3 * 4 * math.log(1 + 1.5 * 100 / (2.0 * 4))) + 1
    assert math.isclose(regret_bound(100, **given_numbers), bound)
