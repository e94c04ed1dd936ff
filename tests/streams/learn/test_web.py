"""What the health of a learn worker says: ready is restored, alive is that offsets move while there is lag."""

import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from exposition import parse, value
from published import durable
from sample_batches import all_algorithms, make_batch

from learner import Samples
from schemas.codec import encode
from streams.learn import PartitionLearner, SamplesPartition
from streams.learn.job.health import LearnHealth
from streams.learn.job.owner import PartitionOwner
from streams.learn.job.report import LearnReport
from streams.learn.job.rounds import AssignedPartition, Delivered, Learning
from streams.learn.partition_learner import Counts
from streams.logs import LogRecord
from streams.parameters import take_snapshot
from streams.settings import Bucket, Settings
from streams.web import STUCK_S


async def no_seek(partition, offset):
    return 1


def worker(**changes):
    """A worker with partition 0, in whatever state, that no broker is needed for."""
    learning = Learning(Settings(buckets=all_algorithms()), seek=no_seek)
    place = AssignedPartition(PartitionOwner(learning.store, 0), **changes)
    learning.places[0] = place
    return learning, place


def restored(place):
    place.owner.learner = PartitionLearner(all_algorithms(), SamplesPartition("samples", "t"))
    place.sought = True


def test_ready_is_assigned_and_restored():
    learning, place = worker()
    assigned = [False]
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: assigned[0])
    assert "not assigned" in health.ready()
    assigned[0] = True
    assert health.ready() == "samples partitions [0] are being restored"
    restored(place)
    assert health.ready() is None
    del learning.places[0]  # more workers than partitions: nothing to do is ready too
    assert health.ready() is None


def test_who_catches_up_and_who_is_held_is_among_the_figures():
    learning, place = worker()
    buckets = all_algorithms()
    first = PartitionLearner(buckets, SamplesPartition("samples", "t"))
    first.apply([LogRecord(6, 0, None, encode(make_batch("full", 2, seed=1)[0]))])
    changed = {"full": replace(buckets["full"], ridge=9.0, epoch=2), "dcm": replace(buckets["dcm"], ridge=9.0)}
    known = durable(first.publish(now_ms=0))
    place.owner.learner = PartitionLearner(buckets | changed, SamplesPartition("samples", "t"), known)
    text = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: True).metrics()
    assert 'glimpse_learn_catching_up_offsets{bucket="full"} 7.0' in text
    assert 'glimpse_learn_held{bucket="dcm"} 1.0' in text
    line = LearnReport(learning, behind=lambda number: 0).line()
    assert line.endswith("0 records behind; no snapshot yet; epoch 2 of full has 7 offsets to go")


def test_alive_is_that_offsets_move_while_there_is_lag():
    learning, place = worker()
    restored(place)
    now, lag = [0.0], [True]
    health = LearnHealth(learning, lagging=lambda number: lag[0], assigned=lambda: True, clock=lambda: now[0])
    assert health.live() is None
    now[0] = STUCK_S + learning.settings.publish_every_s - 1  # a round may take so long to begin
    assert health.live() is None
    now[0] = STUCK_S + learning.settings.publish_every_s + 1
    assert "samples partitions [0] have lag" in health.live()
    place.owner.learner.next_offset += 1
    assert health.live() is None
    now[0] += STUCK_S - 1
    assert health.live() is None
    now[0] += learning.settings.publish_every_s + 2
    assert health.live() is not None
    lag[0] = False
    assert health.live() is None


def test_metrics_are_there_from_the_start():
    learning, place = worker()
    health = LearnHealth(learning, lagging=lambda number: True, assigned=lambda: True)
    text = health.metrics()
    assert value(text, "glimpse_learn_rounds_total") == 0
    assert value(text, "glimpse_learn_ready", partition="0") == 0  # assigned, and not restored: seen, not absent
    assert value(text, "glimpse_learn_lagging", partition="0") == 1
    restored(place)
    text = health.metrics()
    assert value(text, "glimpse_learn_next_offset", partition="0") == 0
    assert value(text, "glimpse_learn_ready", partition="0") == 1


def test_what_keeps_a_partition_from_being_restored_is_said():
    learning, place = worker()
    health = LearnHealth(learning, lagging=lambda number: True, assigned=lambda: True)

    def away() -> None:
        raise TimeoutError("no broker")

    place.owner.restore = away
    asyncio.run(learning.tend())
    assert health.ready() == "samples partitions [0] are being restored, after TimeoutError('no broker')"


def own(learning: Learning, commit) -> None:
    """Assign partition 0, restored from nothing; ``commit`` stands for the broker."""
    learning.assign([0])
    restored(learning.places[0])
    learning.places[0].owner._commit = commit


def deliver(offset: int, lists: int) -> Delivered:
    return Delivered(0, 0, offset, LogRecord(offset, 0, None, encode(make_batch("ubm", lists, seed=offset)[0])))


def test_rounds_that_became_durable_are_counted_also_over_restorations():
    learning = Learning(Settings(buckets=all_algorithms()), seek=no_seek)
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: True)
    failing = [False]

    def commit(*args) -> None:
        if failing[0]:
            raise ConnectionError("fenced")

    async def run() -> None:
        own(learning, commit)
        assert value(health.metrics(), "glimpse_learn_rows_total", partition="0") == 0  # there before the first round
        await learning.take([deliver(0, 5), deliver(1, 4)])
        failing[0] = True
        await learning.take([deliver(2, 3)])
        assert learning.places[0].owner.learner is None
        failing[0] = False
        place = learning.places[0]
        restored(place)
        place.owner.learner.next_offset = 2
        await learning.take([deliver(2, 3), Delivered(0, 0, 3, LogRecord(3, 0, None, b"poison"))])
        learning.assign([])

    asyncio.run(run())
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
    learning = Learning(Settings(buckets=all_algorithms()), seek=no_seek)
    go = threading.Event()

    async def run() -> None:
        own(learning, lambda *args: go.wait(5))
        round_ = asyncio.ensure_future(learning.take([deliver(0, 5)]))
        await asyncio.sleep(0.1)
        learning.assign([])  # while the round is being committed
        go.set()
        await round_
        await asyncio.sleep(0.1)

    asyncio.run(run())
    assert learning.newest == {}
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: True)
    assert not parse(health.metrics())["glimpse_snapshot_rounds"].samples


def test_an_online_store_that_stops_is_seen_and_so_is_its_return(new_redis):
    server = new_redis()
    settings = Settings(buckets=all_algorithms(), redis=server.url, publish_every_s=0.05)
    learning = Learning(settings, seek=no_seek)
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: True)
    assert "glimpse_learn_online_up" not in health.metrics()  # nothing was tried

    async def until(up: float) -> None:
        give_up_at = time.monotonic() + 10
        while f"glimpse_learn_online_up {up:.1f}\n" not in health.metrics():
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.02)

    async def run() -> None:
        own(learning, lambda *args: None)
        await learning.take([deliver(0, 5)])
        keeping = asyncio.ensure_future(learning.online.keep())
        await until(1)
        assert value(health.metrics(), "glimpse_learn_online_failures_total") == 0
        await asyncio.to_thread(server.stop)
        await until(0)
        assert value(health.metrics(), "glimpse_learn_online_failures_total") >= 1
        await asyncio.to_thread(server.start)
        await until(1)
        await learning.stop()
        await keeping

    asyncio.run(run())


def test_the_page_holds_nobody_up_while_conditions_are_computed():
    bucket = Bucket("wide", "c2ucb", dim=400, positions=3)
    learning = Learning(Settings(buckets={"wide": bucket}), seek=no_seek)
    learning.places[0] = place = AssignedPartition(PartitionOwner(learning.store, 0))
    model, random = bucket.model(), np.random.default_rng(0)
    model.learn(Samples.from_clicks(random.uniform(-0.5, 0.5, (50, 3, 400)), random.random((50, 3)) < 0.3))
    place.newest["wide"] = take_snapshot(
        model, bucket, samples_offset=7, topic_id="t", partition=0, published_at_ms=1000
    )
    health = LearnHealth(learning, lagging=lambda number: False, assigned=lambda: True)
    looked = []
    learning.models.look = lambda newest, look=learning.models.look: (
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
    learning, place = worker()
    now, lag = [0.0], [None]
    report = LearnReport(learning, behind=lambda number: lag[0], clock=lambda: now[0])
    now[0] = 60.0
    assert report.line() == "0 lists in 60 s (0.0 a second), lag not known yet; no snapshot yet"
    bucket = all_algorithms()["ubm"]
    model = bucket.model()
    place.newest["ubm"] = take_snapshot(
        model, bucket, samples_offset=42, topic_id="t", partition=0, published_at_ms=1_000
    )
    learning.counts[0] = Counts(lists=1_500)
    now[0], lag[0] = 120.0, 7
    assert report.line() == "1,500 lists in 60 s (25.0 a second), 7 records behind; ubm 1.42"
    now[0], lag[0] = 180.0, 0
    assert report.line() == "0 lists in 60 s (0.0 a second), 0 records behind; ubm 1.42"
    del learning.places[0]
    assert report.line() is None
