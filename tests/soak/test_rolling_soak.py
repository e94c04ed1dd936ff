"""Workers that come and go by order, again and again: make soak."""

import pytest
from kills import COMMANDS
from rolling import rolling, stop_at_any_time


@pytest.mark.timeout(1200)
def test_one_worker_becomes_three_and_one_again_ten_times(settings_for, tmp_path):
    with rolling(settings_for, tmp_path, lists=60_000, load_s=300.0) as workers:
        workers.start(1)
        for _ in range(10):
            workers.start(2)
            workers.end(2)
        workers.check()


@pytest.mark.timeout(600)
def test_a_rolling_restart_of_three(settings_for, tmp_path):
    with rolling(settings_for, tmp_path, lists=30_000, load_s=120.0) as workers:
        workers.start(3)
        for _ in range(3):
            workers.end(1)
            workers.start(1)
        workers.check()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", COMMANDS)
def test_fifty_times_told_to_stop_at_any_instant(settings_for, tmp_path, kind):
    stop_at_any_time(settings_for(), tmp_path, kind, times=50, seed=2)
