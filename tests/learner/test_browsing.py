"""The previous click, and tables of examination."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learner.browsing import checked_table, previous_click, table_hash


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
