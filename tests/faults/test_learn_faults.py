"""Learn workers of all five algorithms that are killed and paused: the same bits, versions that only grow."""

import pytest
from jobs import Jobs
from learn_faults import Watch, kill_in_pairs, sleep_and_wake
from sample_batches import SampleWriter, all_algorithms


@pytest.fixture
def learning(settings_for, tmp_path):
    """Makes a writer, two learn workers and a watch over the same topics."""
    opened = []

    def make(**changes):
        settings = settings_for(buckets=all_algorithms(), publish_every_s=0.2, **changes)
        writer, jobs = SampleWriter(settings), Jobs(settings, tmp_path)
        opened.extend([jobs, writer])
        for _ in range(2):
            jobs.start("learn")
        return writer, jobs, Watch(settings, writer)

    yield make
    for one in opened:
        one.close()


def test_workers_killed_in_pairs_come_to_rest(learning):
    _, jobs, watch = learning()
    kill_in_pairs(jobs, watch, rounds=4, quiet_s=30, seed=1, within_s=60)  # make soak wants 15 s


def test_a_worker_that_slept_beyond_its_session_is_fenced(learning):
    _, jobs, watch = learning()
    sleep_and_wake(jobs, watch, sleep_s=13)
    for worker in list(jobs.running):
        assert jobs.terminate(worker, timeout_s=30) == 0
