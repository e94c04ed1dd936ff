"""Rankers on one page: several in a process, and a real process that is scraped."""

import subprocess
import sys
import time
from urllib.request import urlopen

import numpy as np
from exposition import parse, value
from sample_batches import all_algorithms, make_batch

from schemas.codec import encode
from streams.logs import SourceAway
from streams.parameters import DirectoryParameters, take_snapshot
from streams.rank.job import Ranker
from streams.rank.job.metrics import health_of, metrics_of

BUCKETS = all_algorithms()
CANDIDATES = np.random.default_rng(5).uniform(-0.5, 0.5, (100, 3))


def publish(folder, bucket: str, offset: int) -> None:
    model = BUCKETS[bucket].model()
    model.learn(make_batch(bucket, 30, seed=offset)[1])
    snapshot = take_snapshot(
        model, BUCKETS[bucket], samples_offset=offset, topic_id="t", partition=0, published_at_ms=1000
    )
    DirectoryParameters(folder).put(snapshot, encode(snapshot))


def test_rankers_share_a_page(tmp_path):
    publish(tmp_path, "ubm", 3)
    publish(tmp_path, "full", 5)
    one = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None)
    publish(tmp_path, "ubm", 9)
    rankers = [one, *(Ranker.from_directory(tmp_path, bucket=name, refresh_s=None) for name in ("ubm", "full"))]
    for ranker, times in zip(rankers, (1, 2, 4), strict=True):
        for _ in range(times):
            ranker.rank(CANDIDATES, size=7)
    text = metrics_of(rankers)
    assert value(text, "glimpse_ranker_offset", bucket="ubm") == 3  # the one that is behind tells
    assert value(text, "glimpse_ranker_offset", bucket="full") == 5
    assert value(text, "glimpse_ranker_epoch", bucket="ubm") == BUCKETS["ubm"].epoch
    assert value(text, "glimpse_ranker_rank_seconds", bucket="ubm") == 3
    assert value(text, "glimpse_ranker_rank_seconds", bucket="full") == 4
    assert value(rankers[2].metrics(), "glimpse_ranker_rank_seconds", bucket="full") == 4


def test_latency_is_what_ranking_took(tmp_path):
    publish(tmp_path, "ubm", 3)
    ranker = Ranker.from_directory(tmp_path, bucket="ubm", refresh_s=None)
    model = ranker._loaded.model
    ranker._loaded = type(ranker._loaded)(ranker.snapshot, Slow(model))
    ranker.rank(CANDIDATES, size=7)
    text = ranker.metrics()
    assert 0.03 <= value(text, "glimpse_ranker_rank_seconds_sum", bucket="ubm") < 1
    assert value(text, "glimpse_ranker_rank_seconds_bucket", bucket="ubm", le="0.01") == 0


class Slow:
    """A model that takes its time."""

    def __init__(self, model):
        self.model = model

    def rank(self, *args, **options):
        time.sleep(0.03)
        return self.model.rank(*args, **options)


def test_a_source_that_is_away_is_seen_and_so_is_its_return(tmp_path):
    publish(tmp_path, "ubm", 3)
    away = [False]

    class Flaky(DirectoryParameters):
        def newest(self, bucket, *, after=None):
            if away[0]:
                raise SourceAway("gone")
            return super().newest(bucket, after=after)

    ranker = Ranker(Flaky(tmp_path), bucket="ubm", refresh_s=None)
    away[0] = True
    ranker.refresh()
    assert value(ranker.metrics(), "glimpse_ranker_source_up", bucket="ubm") == 0
    assert value(ranker.metrics(), "glimpse_ranker_missed_total", bucket="ubm") == 1
    away[0] = False
    ranker.refresh()
    assert value(ranker.metrics(), "glimpse_ranker_source_up", bucket="ubm") == 1


SERVICE = """
import sys, time
import numpy as np
from streams.ranker import Ranker, health_of

rankers = [Ranker.from_directory(sys.argv[1], bucket=name) for name in ("ubm", "full")]
with health_of(*rankers) as health:
    for ranker in rankers:
        ranker.rank(np.zeros((5, 3)), size=3)
    print(health.url, flush=True)
    sys.stdin.read()
"""


def test_a_process_with_two_rankers_is_scraped(tmp_path):
    publish(tmp_path, "ubm", 3)
    publish(tmp_path, "full", 5)
    command = [sys.executable, "-c", SERVICE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        with urlopen(f"{url}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        with urlopen(f"{url}/readyz", timeout=5) as answer:
            assert answer.read() == b"ok\n"
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    assert {sample.labels["bucket"] for sample in parse(text)["glimpse_ranker_offset"].samples} == {"ubm", "full"}
    assert value(text, "glimpse_ranker_rank_seconds", bucket="ubm") == 1


def test_without_rankers_there_is_a_page_too():
    assert health_of().url.startswith("http://127.0.0.1")
    assert not parse(metrics_of([]))["glimpse_ranker_offset"].samples
