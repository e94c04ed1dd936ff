"""Workers that die, freeze or are told to go while there is work: the same bits, nothing lost, nothing twice."""

import random
import signal
import time

import pytest
from exactly_once import BUCKETS, LATENESS_S, WAIT_S, Feed, Learned, events
from jobs import Jobs, wait_until
from joined import commits

COMMANDS = {"join": ("join", "--from", "earliest"), "learn": ("learn",)}
FREEZE_S = 13.0  # beyond the session timeout of both jobs


@pytest.fixture
def pipeline(settings_for, tmp_path):
    """Two join and two learn workers on four partitions."""
    settings = settings_for(buckets=BUCKETS, wait_s=WAIT_S, lateness_s=LATENESS_S, partitions=4, publish_every_s=0.3)
    jobs = Jobs(settings, tmp_path)
    workers = {kind: [jobs.start(*command) for _ in range(2)] for kind, command in COMMANDS.items()}
    yield settings, jobs, workers
    jobs.close()


@pytest.mark.timeout(400)
def test_five_kills_of_each_kind_and_a_long_freeze(pipeline):
    settings, jobs, workers = pipeline
    impressions, clicks = events(30_000, seed=2)
    result = Learned(settings, impressions, clicks)
    dice = random.Random(3)
    try:
        feed = Feed(settings, impressions, clicks, pieces=60, every_s=0.6)
        wait_until(lambda: result.lists() > 0, timeout_s=60, jobs=jobs)
        frozen = workers["join"][0]
        frozen.send_signal(signal.SIGSTOP)  # its partitions go to the other one; on waking it is fenced
        frozen_at, thawed = time.monotonic(), False
        for turn in range(5):
            for kind, command in COMMANDS.items():
                assert not feed.ended, "kills must fall while work remains"
                if not thawed and time.monotonic() - frozen_at > FREEZE_S:
                    frozen.send_signal(signal.SIGCONT)
                    thawed = True
                victims = [worker for worker in workers[kind] if worker is not frozen or thawed]
                victim = dice.choice(victims)
                jobs.kill(victim)
                workers[kind].remove(victim)
                time.sleep(dice.uniform(0.1, 2.5))
                workers[kind].append(jobs.start(*command))
                time.sleep(1.0 + 0.2 * turn)
        if not thawed:
            time.sleep(max(0.0, FREEZE_S - (time.monotonic() - frozen_at)))
            frozen.send_signal(signal.SIGCONT)
        wait_until(lambda: feed.ended, timeout_s=120, jobs=jobs)
        wait_until(result.complete, timeout_s=120, jobs=jobs)
        time.sleep(2)
        assert result.complete(), result.differences()
        ledgers = [commit.ledger for commit in commits(settings)]
        assert all(ledger.balanced for ledger in ledgers)
        assert sum(ledger.impressions for ledger in ledgers) == len(impressions)
        assert sum(ledger.clicks for ledger in ledgers) == len(clicks)
    finally:
        result.close()


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
