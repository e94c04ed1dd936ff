"""Replay gives what the live run gave, bit by bit: from any cut of the logs, by any readers, through any stop."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from replay_runs import SETTINGS, START, K, hashes, live, rewrite

from schemas.codec import decode
from schemas.records import SampleBatch
from streams.learn import samples_of
from streams.logs import Archive, Mark, Range
from streams.logs.job import open_source
from streams.rank.job import Ranker
from streams.replay import ReplayError, plan_of, snapshots_in
from streams.replay.job import Interrupted, check_newer, replay, snapshots_of, write_directory
from streams.replay.job import part as replay_part
from streams.settings import Bucket


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_live_equals_replay(runs, partitions, samples):
    wanted = live(runs[partitions])
    assert wanted == live(runs[1])
    assert hashes(runs[partitions], samples=samples) == wanted


def test_any_number_of_readers_gives_the_same(runs, tmp_path):
    plan, _ = plan_of(open_source(str(runs[3]), SETTINGS), SETTINGS)
    said = []

    def interrupt(passed: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does; how far the others are by then may vary

    with suppress(Interrupted):
        replay(plan, out=tmp_path, readers=2, say=interrupt)
    done = replay(plan, out=tmp_path, readers=8, say=lambda passed, total: said.append((passed, total)))
    assert {name: model.sha256() for name, model in done.models.items()} == live(runs[1])
    assert said[-1] == (plan.total(), plan.total())
    assert all(ledger.balanced for ledger in done.ledgers.values())


def test_ctrl_c_saves_and_the_next_run_goes_on(own, tmp_path):
    for topic in ("impressions", "clicks"):
        rewrite(own, topic, lambda records: records, size=100)
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS)
    before, said = signal.getsignal(signal.SIGINT), []

    def interrupt(passed: int, total: int) -> None:
        said.append(passed)
        if len(said) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        replay(plan, out=tmp_path, say=interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    done = replay(plan, out=tmp_path)
    assert done.passed == plan.total() - said[-1] > 0
    assert {name: model.sha256() for name, model in done.models.items()} == live(own)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_speed_of_reading_changes_nothing(own, size):
    if size == 1:
        rewrite(own, "impressions", lambda records: records, size=33)
    for topic in ("impressions", "clicks"):
        rewrite(own, topic, lambda records: records, size=size)
    assert hashes(own) == live(own)


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
def test_stopped_again_and_again_it_ends_the_same(own, tmp_path, samples):
    for topic, size in (("impressions", 50), ("clicks", 20), ("samples", 3)):
        rewrite(own, topic, lambda records: records, size=size)
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS, samples=samples)
    file, stops = tmp_path / "partition-0.replay", 0
    while True:
        steps = iter([False, False])
        try:
            part = replay_part.replay_part(plan, 0, file, say=lambda passed: None, stopping=partial(next, steps, True))
            break
        except Interrupted:
            stops += 1
    assert stops > 4
    assert {name: model.sha256() for name, model in part.models.items()} == live(own)


KILLED = """
import sys
from pathlib import Path
from replay_runs import SETTINGS
from streams.replay.job import part as replay_part
from streams.logs.job import open_source
from streams.replay import plan_of
from streams.replay.job import replay
replay_part.SAVE_EVERY_S = 0.0
plan, _ = plan_of(open_source(sys.argv[1], SETTINGS), SETTINGS)

def say(passed, total):
    print(passed, flush=True)
    sys.stdin.readline()

replay(plan, out=Path(sys.argv[2]), say=say)
"""


def test_killed_it_goes_on(own, tmp_path):
    for topic in ("impressions", "clicks"):
        rewrite(own, topic, lambda records: records, size=100)
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(own), str(out)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": ".:tests/support"},
    ) as process:
        for _ in range(5):
            assert process.stdout.readline()
            process.stdin.write(b"\n")
        time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert json.loads((out / "partition-0.replay").read_bytes())["passed"] > 0
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS)
    done = replay(plan, out=out)
    assert 0 < done.passed < plan.total()
    assert {name: model.sha256() for name, model in done.models.items()} == live(own)


def stop_at_once(passed: int, total: int) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_replay_goes_on_only_with_the_same_plan(own, tmp_path):
    for topic in ("impressions", "clicks"):
        rewrite(own, topic, lambda records: records, size=100)
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS)
    other, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS, changes={"alpha": 0.5})
    with pytest.raises(Interrupted):
        replay(plan, out=tmp_path, say=stop_at_once)
    with pytest.raises(ReplayError, match="unfinished replay of something else"):
        replay(other, out=tmp_path)
    assert replay(plan, out=tmp_path).passed < plan.total()
    assert replay(plan, out=tmp_path).passed == 0, "it was done"
    assert replay(other, out=tmp_path).passed == other.total(), "after a finished one another may begin"
    for name in ("partition-0.replay", "replay.json"):
        (tmp_path / name).write_text("{")
        with pytest.raises(ReplayError, match=rf"{name} cannot be read .*delete it to begin anew"):
            replay(other, out=tmp_path)


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
def test_logs_that_grow_are_replayed_again_and_again(own, tmp_path, samples):
    """An interrupted replay ends where the logs ended when it began; the next one takes in what came since."""
    topics = ("samples",) if samples else ("impressions", "clicks")
    whole = {topic: list(records_of(own, topic)) for topic in topics}
    for topic in topics:
        rewrite(own, topic, lambda records: records[: len(records) // 2], size=3)
    half = hashes(own, samples=samples)
    plan, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS, samples=samples)
    with pytest.raises(Interrupted):
        replay(plan, out=tmp_path, say=stop_at_once)
    for topic in topics:
        rewrite(own, topic, lambda records, topic=topic: whole[topic])
    grown, _ = plan_of(open_source(str(own), SETTINGS), SETTINGS, samples=samples)
    done = replay(grown, out=tmp_path)
    assert {name: model.sha256() for name, model in done.models.items()} == half
    assert 0 < done.passed < plan.total() == done.plan.total()
    assert f"before the {grown.total() - plan.total():,} records that came since" in done.notes[0]
    write_directory(tmp_path, snapshots_of(done, now_ms=1))
    rankers = {name: Ranker.from_directory(tmp_path, bucket=name, refresh_s=None) for name in SETTINGS.buckets}
    done = replay(grown, out=tmp_path)
    assert done.notes == []
    assert {name: model.sha256() for name, model in done.models.items()} == live(own)
    write_directory(tmp_path, snapshots_of(done, now_ms=2))
    for name, ranker in rankers.items():
        assert ranker.refresh(), "a running ranker takes it"
        assert ranker.snapshot.sha256 == live(own)[name]


def records_of(folder: Path, topic: str) -> list:
    return [record for block in Archive(folder).log(topic, 0).read() for record in block.records()]


def test_what_no_running_ranker_would_take_is_not_written(runs, tmp_path):
    def replayed(**options):
        plan, _ = plan_of(open_source(str(runs[3]), SETTINGS), SETTINGS, **options)
        return plan, snapshots_of(replay(plan), now_ms=1)

    _, snapshots = replayed()
    write_directory(tmp_path, snapshots)
    write_directory(tmp_path, snapshots)
    _, other = replayed(changes={"ridge": 3.0})
    with pytest.raises(ReplayError, match=r"ubm@1\.\d+ is there already with other content.*raise --epoch above 1"):
        write_directory(tmp_path, other)
    shorter, less = replayed(within=Range((), (Mark(START + 20_000),)))
    with pytest.raises(ReplayError, match="raise --epoch above 1"):
        check_newer(shorter, snapshots_in(tmp_path, SETTINGS.buckets))
    with pytest.raises(ReplayError, match="raise --epoch above 1"):
        write_directory(tmp_path, less)
    assert {name: found.sha256 for name, found in snapshots_in(tmp_path, SETTINGS.buckets).items()} == live(runs[3])
    newer, raised = replayed(changes={"ridge": 3.0, "epoch": 2})
    check_newer(newer, snapshots_in(tmp_path, SETTINGS.buckets))
    write_directory(tmp_path, raised)
    assert snapshots_in(tmp_path, SETTINGS.buckets)["ubm"].ridge == 3.0


def learned(folder: Path, bucket: Bucket, keep=lambda batch: True) -> str:
    """The slow, obvious twin: every sample record into one model."""
    model = bucket.model()
    for log in Archive(folder).logs("samples"):
        for block in log.read():
            for record in block.records():
                batch = decode(record.value, SampleBatch)
                if batch.bucket == bucket.name and keep(record):
                    model.learn(samples_of(batch))
    return model.sha256()


CHANGES = {
    "algorithm": {"algorithm": "c2ucb"},
    "alpha": {"alpha": 0.25},
    "table": {"examination": np.tril(np.full((K, K), 0.3))},
    "scales": {"context_scale": 2.0, "reward_scale": 4.0},
    "ridge": {"ridge": 3.0, "beta": 2.0},
}


@pytest.mark.parametrize("samples", [False, True], ids=["events", "samples"])
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_other_parameters_learn_as_if_they_had_been_deployed(runs, changes, samples):
    found = hashes(runs[3], only=["ubm"], changes=changes, samples=samples)
    assert found == {"ubm": learned(runs[3], replace(SETTINGS.buckets["ubm"], **changes))}


def test_a_range_of_samples_is_exactly_that(runs):
    log = Archive(runs[1]).log("samples", 0)
    middle, times = log.end // 2, [block.timestamps_ms[0] for block in log.read()]
    mark, at_ms = Mark(None, "samples", 0, middle), int(times[len(times) // 2])
    ubm = SETTINGS.buckets["ubm"]
    for start, stop, keep in (
        ((), (mark,), lambda record: record.offset < middle),
        ((mark,), (), lambda record: record.offset >= middle),
        ((Mark(at_ms),), (), lambda record: record.timestamp >= at_ms),
        ((), (Mark(at_ms),), lambda record: record.timestamp < at_ms),
    ):
        found = hashes(runs[1], samples=True, only=["ubm"], within=Range(start, stop))
        assert found == {"ubm": learned(runs[1], ubm, keep)}


def test_another_wait_changes_what_is_late(runs):
    plan, _ = plan_of(open_source(str(runs[1]), SETTINGS), SETTINGS)
    short = replace(SETTINGS, wait_s=1, lateness_s=0)
    other, _ = plan_of(open_source(str(runs[1]), short), short)
    assert replay(other).ledgers[0].late > replay(plan).ledgers[0].late


def test_lists_that_are_open_may_stay_out(own):
    plan, _ = plan_of(
        open_source(str(own), SETTINGS), SETTINGS, finish=False, within=Range((), (Mark(START + 30_000),))
    )
    done = replay(plan)
    [ledger] = done.ledgers.values()
    assert ledger.open > 0
    assert ledger.balanced
    assert sum(model.rounds for model in done.models.values()) == ledger.lists
