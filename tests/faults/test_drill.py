"""`glimpse drill` in its short form: a kill under load is survived to the bit, and a lost list is noticed."""

import os
import re
import subprocess
import sys

import pytest
import redis
from kafka.admin import KafkaAdminClient

from streams.drill.job.breakable import own_buckets, servers_as_set
from streams.drill.job.load import Golden, Live, Load, draw_load
from streams.settings import Settings


@pytest.mark.timeout(800)
def test_a_kill_of_each_job_gives_the_same_bits_and_leaves_nothing_behind(kafka, redis_url, tmp_path):
    environ = {**os.environ, "GLIMPSE_KAFKA": kafka, "GLIMPSE_REDIS": redis_url}
    words = "drill --kafka --faults 2 --seconds 2 --workers 1 --kind kill-join --kind kill-learn"
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli", *words.split()],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same bits") == 2
    prefix = re.search(r"(drill-\w+-)impressions", done.stderr)[1]
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    assert [topic for topic in admin.list_topics() if topic.startswith(prefix)] == []
    admin.close()
    assert list(redis.Redis.from_url(redis_url).scan_iter(match=f"glimpse:{prefix}*")) == []


def test_a_state_that_is_not_the_golden_one_is_told(kafka, tmp_path):
    """Nobody learns here, so every list of the golden run is missing."""
    with servers_as_set(Settings(kafka=kafka, buckets=own_buckets())) as servers:
        events = draw_load(servers.settings, start_ms=1_750_000_000_000, load_s=1.0, rate=30, seed=1)
        golden, live = Golden(tmp_path / "golden", servers.settings), Live(servers.settings)
        golden.learn(events)
        load = Load(servers.settings, events)
        load.start()
        load.join(20)
        assert (load.error, load.written, golden.lists, live.lists()) == (None, 30, 30, 0)
        assert re.fullmatch(r"ubm has 0 of \d+ lists on Kafka", live.differences(golden)[0])
        live.close()
        golden.close()
