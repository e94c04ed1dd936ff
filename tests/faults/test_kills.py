"""Workers that die, freeze or are told to go while there is work: the same bits, nothing lost, nothing twice."""

import pytest
from exactly_once import Feed, Learned, events
from jobs import wait_until
from kills import COMMANDS, kill_and_freeze, kill_quickly, two_of_each


@pytest.fixture
def pipeline(settings_for, tmp_path):
    with two_of_each(settings_for, tmp_path) as running:
        yield running


def test_two_kills_of_each_kind_and_a_long_freeze(pipeline):
    kill_and_freeze(pipeline, kills=2, lists=12_000, load_s=15.0)


def test_a_first_start_in_which_workers_die_again_and_again_completes(pipeline):
    kill_quickly(pipeline, quick=10, slow=1, lists=6_000, load_s=18.0)


def test_told_to_go_under_load_workers_drain_within_ten_seconds_and_others_go_on(pipeline):
    settings, jobs, workers = pipeline
    impressions, clicks = events(12_000, seed=4)
    result = Learned(settings, impressions, clicks)
    try:
        feed = Feed(settings, impressions, clicks, pieces=20, every_s=0.5)
        wait_until(lambda: result.lists() > 500, timeout_s=60, jobs=jobs)
        for kind, command in COMMANDS.items():
            for worker in workers[kind]:
                assert not feed.ended, "workers must be told while there is load"
                assert jobs.terminate(worker, timeout_s=10) == 0, jobs.printed()
            workers[kind] = [jobs.start(*command)]
        wait_until(lambda: feed.ended, timeout_s=60, jobs=jobs)
        wait_until(result.complete, timeout_s=90, jobs=jobs)
    finally:
        result.close()
