"""The long forms of what tests/faults does to learn workers: make soak."""

import pytest
from jobs import Jobs
from learn_faults import Watch, kill_in_pairs, sleep_and_wake
from sample_batches import SampleWriter, all_algorithms


@pytest.fixture
def learning(settings_for, tmp_path):
    """Two learn workers, with a watch over what they publish."""
    settings = settings_for(buckets=all_algorithms(), publish_every_s=0.2)
    writer, jobs = SampleWriter(settings), Jobs(settings, tmp_path)
    for _ in range(2):
        jobs.start("learn")
    yield jobs, Watch(settings, writer)
    jobs.close()
    writer.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twenty_rounds_of_kills_in_pairs(learning, seed):
    jobs, watch = learning
    kill_in_pairs(jobs, watch, rounds=20, quiet_s=60, seed=seed, within_s=15)


def test_a_sleep_of_forty_seconds(learning):
    jobs, watch = learning
    sleep_and_wake(jobs, watch, sleep_s=40)
    for worker in list(jobs.running):
        assert jobs.terminate(worker, timeout_s=10) == 0
