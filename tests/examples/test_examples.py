"""The programs in examples/ run as they stand: alone, on an archive, and beside a running Glimpse."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from jobs import Jobs, wait_until

from streams.embedded.job import Embedded
from streams.events.job.produce import simulated_events
from streams.parameters.job import KafkaParameters
from streams.settings import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *words, folder, **environ):
    """Return what an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent), **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_bandit_finds_the_taste_that_weighing_by_examination_finds(tmp_path):
    printed = run("bandit.py", folder=tmp_path)
    regret = [float(number) for number in re.findall(r"regret ([\d.]+)", printed)]
    distance = [float(number) for number in re.findall(r"taste ([\d.]+)", printed)]
    assert regret[0] > 1.5 * regret[1] > 0, printed  # c2ucb first
    assert distance[0] > 1.5 * distance[1] > 0, printed


def test_replay_gives_the_same_bits_and_says_how_far_another_algorithm_is(tmp_path):
    config = EXAMPLES / "glimpse.toml"
    settings = load(config, environ={})
    with Embedded(tmp_path / "log", settings) as loop:
        loop.append(simulated_events(settings, 200, clock=lambda: 1_700_000_000.0), at_ms=1_700_000_005_000)
        loop.step(now_ms=1_700_000_900_000)
    printed = run("replay.py", str(tmp_path / "log"), str(config), folder=tmp_path)
    assert "200 lists relearned from impressions and clicks" in printed
    first, _, second = printed.partition("learned by c2ucb")
    assert {name for name in settings.buckets if f"{name}: the same bits as" in first} == set(settings.buckets)
    assert "c2ucb: the same bits as" in second
    assert re.search(r"ubm: \+0 lists against .*‖θ − θ live‖ = 0\.\d*[1-9]", second), printed


def test_service_ranks_logs_and_is_learned_from(settings_for, redis_url, tmp_path):
    shop = load(EXAMPLES / "glimpse.toml", environ={})
    settings = settings_for(buckets=shop.buckets, redis=redis_url, wait_s=1.0, lateness_s=60.0, partitions=2)
    jobs = Jobs(settings, tmp_path)
    try:
        jobs.start("join", "--from", "earliest")
        jobs.start("learn")
        run("service.py", "--visits", "150", "--rate", "1000", folder=tmp_path)
        wait_until(partial(has_learned, settings, 150), timeout_s=60, jobs=jobs)
        printed = run("service.py", "--visits", "50", "--rate", "1000", folder=tmp_path)
    finally:
        jobs.close()
    lists = dict(re.findall(r"^(\w+) +(\d+) lists", printed, flags=re.MULTILINE))
    assert set(lists) == {"ubm", "c2ucb", "control"}
    assert sum(map(int, lists.values())) == 50
    assert re.search(r"^ubm .* ranked by snapshot 1\.[1-9]", printed, flags=re.MULTILINE), printed
    assert re.search(r"^control .* ranked by its own order", printed, flags=re.MULTILINE), printed


def has_learned(settings, lists):
    parameters = KafkaParameters(settings)
    parameters.catch_up()
    parameters.close()
    return sum(snapshot.rounds for snapshot in parameters.snapshots.values()) >= lists
