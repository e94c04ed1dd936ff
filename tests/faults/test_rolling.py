"""Workers that come and go by order, and are told to stop at any instant: they end well, and change no bit."""

import pytest
from kills import COMMANDS
from rolling import rolling, stop_at_any_time


@pytest.mark.timeout(800)
def test_one_worker_becomes_three_and_one_again(settings_for, tmp_path):
    with rolling(settings_for, tmp_path, lists=12_000, load_s=45.0) as workers:
        workers.start(1)
        workers.start(2)
        workers.end(2)
        workers.check()


@pytest.mark.parametrize("kind", COMMANDS)
def test_told_to_stop_at_any_instant_a_worker_ends_well(settings_for, tmp_path, kind):
    stop_at_any_time(settings_for(), tmp_path, kind, times=2, seed=1)
