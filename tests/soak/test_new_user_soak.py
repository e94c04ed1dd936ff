"""The path of a new user with a minute of traffic."""

import pytest
from new_user import check, walk


@pytest.mark.timeout(900)
def test_the_path_of_a_new_user_with_a_minute_of_traffic(programs, tmp_path):
    lists = 24_000
    seen = walk(tmp_path, lists=lists, rate=600)
    check(seen, tmp_path, lists=lists)
    assert seen["produced_s"] > 55
