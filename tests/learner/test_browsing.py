"""The previous click, and tables of examination."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learner.browsing import checked_table, previous_click, steepness, table_hash
from learner.experiments.day_one import steep


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


def test_the_steepness_of_a_table_is_found_also_up_to_a_factor():
    table = steep(1.3, 8)
    assert steepness(0.4 * table, np.tri(8, dtype=np.int64)) == pytest.approx(1.3)
    assert steepness(table[:, 0], np.ones(8, dtype=np.int64)) == pytest.approx(1.3)
