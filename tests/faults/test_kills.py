"""Workers that die or freeze while there is work: the same bits, nothing lost, nothing twice."""

import pytest
from kills import kill_and_freeze, kill_quickly, two_of_each


@pytest.fixture
def pipeline(settings_for, tmp_path):
    with two_of_each(settings_for, tmp_path) as running:
        yield running


def test_two_kills_of_each_kind_and_a_long_freeze(pipeline):
    kill_and_freeze(pipeline, kills=2, lists=12_000, load_s=15.0)


def test_a_first_start_in_which_workers_die_again_and_again_completes(pipeline):
    kill_quickly(pipeline, quick=10, slow=1, lists=6_000, load_s=18.0)
