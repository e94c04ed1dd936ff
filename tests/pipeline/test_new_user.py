"""From first traffic to a fitted table in force, and back: the commands that a new user types, on real servers."""

import pytest
from new_user import check, walk


@pytest.mark.timeout(800)
def test_the_path_of_a_new_user(programs, tmp_path):
    lists = 2000
    check(walk(tmp_path, lists=lists, rate=2000), tmp_path, lists=lists)
