"""A rollout under traffic, with workers killed: rankers never see less, and the new epoch is what a replay gives."""

import json
import os
import random
import subprocess
import threading
import time
from dataclasses import replace

import pytest
from jobs import GLIMPSE, Jobs, wait_until
from learn_faults import Traffic, Watch
from sample_batches import SampleWriter, all_algorithms

from streams.broker import partition_of
from streams.ranker import Ranker
from streams.settings import write_examination

BUCKETS = {name: bucket for name, bucket in all_algorithms().items() if name in ("ubm", "full", "dcm")}


class Looks(threading.Thread):
    """A ranker that looks for a newer model every 50 ms, and what it saw."""

    def __init__(self, settings):
        super().__init__(daemon=True)
        self.ranker = Ranker.from_redis(settings, bucket="ubm", refresh_s=None)
        self.seen, self.over = [self._look()], threading.Event()
        self.start()

    def _look(self):
        return (*self.ranker.snapshot.version, self.ranker.snapshot.rounds)

    def run(self):
        while not self.over.wait(0.05):
            self.ranker.refresh()
            self.seen.append(self._look())

    def end(self):
        self.over.set()
        self.join(timeout=30)
        self.ranker.close()
        assert not self.is_alive()


@pytest.fixture
def deployment(settings_for, redis_url, tmp_path):
    settings = settings_for(buckets=BUCKETS, publish_every_s=0.2, partitions=2, redis=redis_url)
    writer, jobs = SampleWriter(settings, taken_back=0.0), Jobs(settings, tmp_path)
    for _ in range(2):
        jobs.start("learn")
    yield settings, jobs, writer
    jobs.close()
    writer.close()


def glimpse(jobs, *command):
    """What a command prints."""
    environ = {**os.environ, "GLIMPSE_CONFIG": str(jobs.toml)}
    done = subprocess.run(
        [GLIMPSE, *command], cwd=jobs.folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + jobs.printed()
    return done.stdout


def rolled_out(watch, epoch):
    return watch.look()["ubm"][0] == epoch


def relearned(bucket, writer):
    model = bucket.model()
    for samples in writer.samples[bucket.name]:
        model.learn(samples)
    return model.sha256()


def roll_out_twice(jobs, watch, traffic, table):
    """Roll out another ridge, then another table while workers are killed; traffic ends with it."""
    dice = random.Random(5)
    try:
        glimpse(jobs, "rollout", "--bucket", "ubm", "--ridge", "2.5", "--yes")
        wait_until(lambda: rolled_out(watch, 2), timeout_s=60, jobs=jobs)  # taken up by workers that run
        glimpse(jobs, "rollout", "--bucket", "ubm", "--examination", str(table), "--yes")
        for _ in range(3):
            before = watch.look()
            jobs.kill(dice.choice(jobs.running))
            jobs.start("learn")
            time.sleep(dice.uniform(0.1, 1.0))
        wait_until(lambda: rolled_out(watch, 3), timeout_s=60, jobs=jobs)
        wait_until(lambda: watch.moved(before), timeout_s=60, jobs=jobs)
    finally:
        traffic.end()


def test_a_rollout_under_traffic_and_kills_has_no_gap_and_ends_as_a_replay(deployment, tmp_path):
    settings, jobs, writer = deployment
    assert len({partition_of(name, 2) for name in BUCKETS}) == 2, "one shares its partition, one does not"
    watch, table = Watch(settings, writer), tmp_path / "table.json"
    other = BUCKETS["ubm"].examination * 0.9
    write_examination(table, other)
    for _ in range(60):
        writer.write(lists=5)
    wait_until(watch.learned, timeout_s=60, jobs=jobs)
    looks = Looks(settings)
    try:
        roll_out_twice(jobs, watch, Traffic(writer, pause_s=0.05), table)
        new = {**writer.hashes(), "ubm": relearned(replace(BUCKETS["ubm"], examination=other, ridge=2.5), writer)}
        wait_until(lambda: hashes(watch) == new, timeout_s=60, jobs=jobs)
        # Redis is filled after Kafka, and by a later worker when the one that promoted was killed between the two.
        wait_until(lambda: looks.ranker.snapshot.sha256 == new["ubm"], timeout_s=60, jobs=jobs)
    finally:
        looks.end()
    assert looks.seen == sorted(looks.seen), "versions only grow"
    lists = [rounds for _, _, rounds in looks.seen]
    assert lists == sorted(lists), "a model with fewer lists than the one before"
    assert {epoch for epoch, _, _ in looks.seen} == {1, 2, 3}
    assert new["ubm"] in glimpse(jobs, "replay", "kafka", "--samples", "--bucket", "ubm")
    plan = glimpse(jobs, "rollout", "--bucket", "ubm", "--alpha", "0.5")
    assert f"relearned   {sum(map(len, writer.samples['ubm'])):,} lists" in plan
    assert "cosine 1.0000, moved by 0.0%" in plan, "α ranks, it does not learn"
    [shown] = [json.loads(line) for line in glimpse(jobs, "show", "ubm", "--json").splitlines()]
    assert (shown["version"].partition(".")[0], shown["candidate"], shown["settings_differ"]) == ("3", None, [])
    assert "is in force over ridge, examination" in shown["rollout"]["warning"]


def hashes(watch):
    watch.look()
    return {name: one.sha256 for name, one in watch.reader.snapshots.items()}
