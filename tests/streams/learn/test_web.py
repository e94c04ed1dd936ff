"""What the health of a learn worker says: ready is restored, alive is that offsets move while there is lag."""

import asyncio
import threading
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from exposition import parse, value
from owned import feed, nobody_reads, owner_of
from published import durable
from sample_batches import all_algorithms, make_batch

from learner import Samples
from schemas.codec import encode
from streams.learn import PartitionLearner, SamplesPartition
from streams.learn.job.health import LearnHealth, LearnReport
from streams.learn.job.owner import PartitionOwner
from streams.learn.job.worker import LearnJob
from streams.logs import LogRecord
from streams.parameters import take_snapshot
from streams.settings import Bucket, Settings
from streams.web import STUCK_S


def worker():
    """A worker with partition 0, in whatever state, that no broker is needed for."""
    job = LearnJob(Settings(buckets=all_algorithms()), seek=nobody_reads)
    job.owners[0] = owner_of(job.store, watch=job.watch)
    return job, job.owners[0]


def restored(owner):
    owner.learner = PartitionLearner(all_algorithms(), SamplesPartition("samples", "t"))
    owner._reads = True
    owner.pending.seek(0)


def test_ready_is_assigned_and_restored():
    job, owner = worker()
    assigned = [False]
    health = LearnHealth(job, lagging=lambda number: False, assigned=lambda: assigned[0])
    assert "not assigned" in health.ready()
    assigned[0] = True
    assert health.ready() == "samples partitions [0] are being restored"
    restored(owner)
    assert health.ready() is None
    del job.owners[0]  # more workers than partitions: nothing to do is ready too
    assert health.ready() is None


def test_who_catches_up_and_who_is_held_is_among_the_figures():
    job, owner = worker()
    buckets = all_algorithms()
    first = PartitionLearner(buckets, SamplesPartition("samples", "t"))
    first.apply([LogRecord(6, 0, None, encode(make_batch("full", 2, seed=1)[0]))])
    changed = {"full": replace(buckets["full"], ridge=9.0, epoch=2), "dcm": replace(buckets["dcm"], ridge=9.0)}
    known = durable(first.publish(now_ms=0))
    owner.learner = PartitionLearner(buckets | changed, SamplesPartition("samples", "t"), known)
    text = LearnHealth(job, lagging=lambda number: False, assigned=lambda: True).metrics()
    assert 'glimpse_learn_catching_up_offsets{bucket="full"} 7.0' in text
    assert 'glimpse_learn_held{bucket="dcm"} 1.0' in text
    line = LearnReport(job, behind=lambda number: 0).line()
    assert line.endswith("0 records behind; no snapshot yet; epoch 2 of full has 7 offsets to go")


def test_alive_is_that_offsets_move_while_there_is_lag():
    job, owner = worker()
    restored(owner)
    now, lag = [0.0], [True]
    health = LearnHealth(job, lagging=lambda number: lag[0], assigned=lambda: True, clock=lambda: now[0])
    assert health.live() is None
    now[0] = STUCK_S + job.settings.publish_every_s - 1  # a round may take so long to begin
    assert health.live() is None
    now[0] = STUCK_S + job.settings.publish_every_s + 1
    assert "samples partitions [0] have lag" in health.live()
    owner.learner.next_offset += 1
    assert health.live() is None
    now[0] += STUCK_S - 1
    assert health.live() is None
    now[0] += job.settings.publish_every_s + 2
    assert health.live() is not None
    lag[0] = False
    assert health.live() is None


def test_metrics_are_there_from_the_start():
    job, owner = worker()
    health = LearnHealth(job, lagging=lambda number: True, assigned=lambda: True)
    text = health.metrics()
    assert value(text, "glimpse_learn_rounds_total") == 0
    assert value(text, "glimpse_learn_ready", partition="0") == 0  # assigned, and not restored: seen, not absent
    assert value(text, "glimpse_learn_lagging", partition="0") == 1
    restored(owner)
    text = health.metrics()
    assert value(text, "glimpse_learn_next_offset", partition="0") == 0
    assert value(text, "glimpse_learn_ready", partition="0") == 1


def test_what_keeps_a_partition_from_being_restored_is_said():
    job, owner = worker()
    health = LearnHealth(job, lagging=lambda number: True, assigned=lambda: True)

    def away() -> None:
        raise TimeoutError("no broker")

    owner.restore = away
    owner.maintain()
    assert health.ready() == "samples partitions [0] are being restored, after TimeoutError('no broker')"


def own(job: LearnJob, commit) -> PartitionOwner:
    """Assign partition 0, restored from nothing; ``commit`` stands for the broker."""
    job.assign([0])
    restored(job.owners[0])
    job.owners[0]._commit = commit
    return job.owners[0]


def record(offset: int, lists: int) -> LogRecord:
    return LogRecord(offset, 0, None, encode(make_batch("ubm", lists, seed=offset)[0]))


def test_rounds_that_became_durable_are_counted_also_over_restorations():
    job = LearnJob(Settings(buckets=all_algorithms()), seek=nobody_reads)
    health = LearnHealth(job, lagging=lambda number: False, assigned=lambda: True)
    failing = [False]

    def commit(*args) -> None:
        if failing[0]:
            raise ConnectionError("fenced")

    owner = own(job, commit)
    assert value(health.metrics(), "glimpse_learn_rows_total", partition="0") == 0  # there before the first round
    feed(owner, [record(0, 5), record(1, 4)])
    failing[0] = True
    feed(owner, [record(2, 3)])
    assert owner.learner is None
    failing[0] = False
    restored(owner)
    owner.learner.next_offset = 2
    feed(owner, [record(2, 3), LogRecord(3, 0, None, b"poison")])
    job.assign([])
    text = health.metrics()
    rows = sum(make_batch("ubm", lists, seed=offset)[1].rows for offset, lists in enumerate((5, 4, 3)))
    assert value(text, "glimpse_learn_rows_total", partition="0") == rows
    assert value(text, "glimpse_learn_lists_total", partition="0") == 12
    assert value(text, "glimpse_learn_records_total", partition="0") == 4
    assert value(text, "glimpse_learn_dead_letters_total", partition="0") == 1
    assert value(text, "glimpse_learn_rounds_total") == 2
    assert value(text, "glimpse_learn_round_seconds_count") == 2
    assert 0 < value(text, "glimpse_learn_round_seconds_sum") < 5


def test_a_snapshot_of_a_partition_that_was_taken_away_is_not_shown():
    job = LearnJob(Settings(buckets=all_algorithms()), seek=nobody_reads)
    committing, go = threading.Event(), threading.Event()

    def commit(*args) -> None:
        committing.set()
        go.wait(60)

    owner = own(job, commit)
    under_way = threading.Thread(target=feed, args=(owner, [record(0, 5)]))
    under_way.start()
    assert committing.wait(60)
    [gone] = job.assign([])  # while the round is being committed
    go.set()
    gone.close()
    under_way.join()
    assert job.newest == {}
    health = LearnHealth(job, lagging=lambda number: False, assigned=lambda: True)
    assert not parse(health.metrics())["glimpse_snapshot_rounds"].samples


def test_an_online_store_that_stops_is_seen_and_so_is_its_return(new_redis):
    server = new_redis()
    settings = Settings(buckets=all_algorithms(), redis=server.url, publish_every_s=0.05)
    job = LearnJob(settings, seek=nobody_reads)
    health = LearnHealth(job, lagging=lambda number: False, assigned=lambda: True)
    assert "glimpse_learn_online_up" not in health.metrics()  # nothing was tried

    def until(up: float) -> None:
        give_up_at = time.monotonic() + 60
        while f"glimpse_learn_online_up {up:.1f}\n" not in health.metrics():
            assert time.monotonic() < give_up_at
            time.sleep(0.02)

    feed(own(job, lambda *args: None), [record(0, 5)])
    keeping = threading.Thread(target=job.keep_online)
    keeping.start()
    until(1)
    assert value(health.metrics(), "glimpse_learn_online_failures_total") == 0
    server.stop()
    until(0)
    assert value(health.metrics(), "glimpse_learn_online_failures_total") >= 1
    server.start()
    until(1)
    job.stop()
    keeping.join()


def test_the_page_holds_nobody_up_while_conditions_are_computed():
    bucket = Bucket("wide", "c2ucb", dim=400, positions=3)
    job = LearnJob(Settings(buckets={"wide": bucket}), seek=nobody_reads)
    job.owners[0] = owner_of(job.store)
    model, random = bucket.model(), np.random.default_rng(0)
    model.learn(Samples.from_clicks(random.uniform(-0.5, 0.5, (50, 3, 400)), random.random((50, 3)) < 0.3))
    job.owners[0].newest["wide"] = take_snapshot(
        model, bucket, samples_offset=7, topic_id="t", partition=0, published_at_ms=1000
    )
    health = LearnHealth(job, lagging=lambda number: False, assigned=lambda: True)
    looked = []
    job.watch.models.look = lambda newest, look=job.watch.models.look: (
        looked.append(threading.current_thread() is threading.main_thread()),
        look(newest),
    )
    asyncio.run(health.look())
    text = health.metrics()
    assert looked == [False]
    assert value(text, "glimpse_snapshot_gram_condition", bucket="wide") == pytest.approx(np.linalg.cond(model.gram))
    assert value(text, "glimpse_snapshot_offset", bucket="wide") == 7
    assert value(text, "glimpse_snapshot_epoch", bucket="wide") == bucket.epoch


def test_each_minute_a_worker_says_lists_rate_lag_and_versions():
    job, owner = worker()
    now, lag = [0.0], [None]
    report = LearnReport(job, behind=lambda number: lag[0], clock=lambda: now[0])
    now[0] = 60.0
    assert report.line() == "0 lists in 60 s (0.0 a second), lag not known yet; no snapshot yet"
    bucket = all_algorithms()["ubm"]
    model = bucket.model()
    owner.newest["ubm"] = take_snapshot(
        model, bucket, samples_offset=42, topic_id="t", partition=0, published_at_ms=1_000
    )
    job.watch.counts[0] = Counter(lists=1_500)
    now[0], lag[0] = 120.0, 7
    assert report.line() == "1,500 lists in 60 s (25.0 a second), 7 records behind; ubm 1.42"
    now[0], lag[0] = 180.0, 0
    assert report.line() == "0 lists in 60 s (0.0 a second), 0 records behind; ubm 1.42"
    del job.owners[0]
    assert report.line() is None
