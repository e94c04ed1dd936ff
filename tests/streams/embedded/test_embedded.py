"""The embedded runner learns what the same events give on any number of partitions, through any crash."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from learner import Samples
from schemas.codec import decode
from schemas.records import Click, DeadLetter, Impression
from streams.embedded.job import Embedded, StepFailed
from streams.events import Event
from streams.events.job.produce import simulated_events
from streams.logs import Archive, ArchiveError
from streams.parameters import DirectoryParameters
from streams.settings import Bucket, Settings

K, DIM, START = 4, 3, 1_700_000_000_000
TABLE = np.tril(np.full((K, K), 0.6))
SETTINGS = Settings(
    wait_s=60,
    lateness_s=60,
    future_s=10,
    buckets={
        "ubm": Bucket("ubm", algorithm="ubm-linucb", dim=DIM, positions=K, examination=TABLE),
        "dcm": Bucket("dcm", algorithm="dcm-linucb", dim=DIM, positions=K),
        "pbm": Bucket("pbm", algorithm="pbm-ucb", dim=DIM, positions=K, examination=TABLE[:, 0]),
        "lot": Bucket("lot", algorithm="random", dim=DIM, positions=K),
    },
)


def chunks(lists: int, *, seed: int = 5) -> list[tuple[int, list]]:
    """Simulated events in chunks with the time of each: clicks up to 90 s late, some twice, some before their list."""
    ticks, choose = count(START, 100), random.Random(seed)
    events: list[tuple[int, Event]] = []
    for event in simulated_events(SETTINGS, lists, seed=seed, clock=lambda: next(ticks) / 1000):
        if isinstance(event, Impression):
            events.append((event.shown_at_ms, event))
        else:
            delay = choose.choice([-2_000, 0, 5_000, 90_000])
            events += [(event.clicked_at_ms + delay, event)] * choose.choice([1, 1, 2])
    events.sort(key=lambda pair: pair[0])
    found: dict[int, list] = {}
    for at, event in events:
        found.setdefault(-(-at // 5_000) * 5_000, []).append(event)
    return sorted(found.items())


def play(path: Path, plan: list, *, partitions: int = 1, say=lambda: None) -> dict[str, str]:
    """Append and step through all of ``plan`` that is not in the logs yet; return the final hashes."""
    with Embedded(path, SETTINGS, partitions=partitions) as loop:
        there = {topic: logged(path, topic) for topic in ("impressions", "clicks")}
        for at_ms, events in plan:
            fresh = []
            for event in events:
                topic = "impressions" if isinstance(event, Impression) else "clicks"
                there[topic] -= 1
                if there[topic] < 0:
                    fresh.append(event)
            if at_ms >= loop.logs.now_ms:
                loop.append(fresh, at_ms=at_ms)
                loop.step(at_ms)
                say()
        loop.step(plan[-1][0] + 1_000_000)
        assert all(ledger.balanced and not ledger.open for ledger in loop.ledgers.values())
    return hashes(path)


def logged(path: Path, topic: str) -> int:
    return sum(len(block) for log in Archive(path).logs(topic) for block in log.read())


def hashes(path: Path) -> dict[str, str]:
    return {name: DirectoryParameters(path / "snapshots").newest(name).sha256 for name in SETTINGS.buckets}


def look_at_all(plan: list) -> dict[str, str]:
    """The slow, obvious twin: every list with all its clicks, learned once."""
    models = {name: bucket.model() for name, bucket in SETTINGS.buckets.items()}
    shown = {event.impression_id: event for _, events in plan for event in events if isinstance(event, Impression)}
    rewards = {name: np.zeros(event.size) for name, event in shown.items()}
    for _, events in plan:
        for event in events:
            if isinstance(event, Click):
                rewards[event.impression_id][event.position - 1] = event.reward
    for name, event in shown.items():
        extent = max(event.rendered, *(np.flatnonzero(rewards[name]) + 1), 1)
        models[event.bucket].learn(
            Samples.from_clicks([event.contexts_array], [rewards[name]], [event.items_array], sizes=[extent])
        )
    return {name: model.sha256() for name, model in models.items()}


PLAN = chunks(400)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_loop_learns_what_a_look_at_everything_gives(tmp_path, partitions):
    assert play(tmp_path, PLAN, partitions=partitions) == look_at_all(PLAN)


def test_making_it_again_after_every_step_changes_nothing(tmp_path):
    for stop in range(1, len(PLAN) + 1, 3):
        with Embedded(tmp_path, SETTINGS) as loop:
            for at_ms, events in PLAN[max(0, stop - 3) : stop]:
                loop.append(events, at_ms=at_ms)
                loop.step(at_ms)
    left = PLAN[stop:]
    with Embedded(tmp_path, SETTINGS) as loop:
        for at_ms, events in left:
            loop.append(events, at_ms=at_ms)  # and no step: what was appended counts
    with Embedded(tmp_path, SETTINGS, sync=True) as loop:
        loop.step(PLAN[-1][0] + 1_000_000)
    assert hashes(tmp_path) == look_at_all(PLAN)


def test_killed_runs_end_where_one_run_ends(tmp_path):
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r}, run_name='player')", str(tmp_path)]
    choose, pipes = random.Random(2), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    for steps in (2, 9, None):
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": "."}, **pipes) as process:
            if steps is None:
                process.communicate(b"\n" * 1000)
                break
            for _ in range(steps):
                assert process.stdout.readline() == b"step\n"
                process.stdin.write(b"\n")
            time.sleep(choose.uniform(0, 0.005))  # it is somewhere in the next step
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    assert process.returncode == 0
    assert hashes(tmp_path) == look_at_all(PLAN)


def test_a_ranker_gets_each_new_snapshot(tmp_path):
    with Embedded(tmp_path, SETTINGS) as loop:
        ranker = loop.ranker("ubm")
        assert ranker.version == (1, 0)
        assert list(ranker.rank(np.eye(DIM), size=2)) == [0, 1]
        for at_ms, events in PLAN[:30]:
            loop.append(events, at_ms=at_ms)
            published = loop.step(at_ms)
        assert ranker.refresh()
        assert ranker.version == DirectoryParameters(tmp_path / "snapshots").newest("ubm").version
        assert {snapshot.bucket for snapshot in published} <= set(SETTINGS.buckets)


def test_what_is_refused_is_kept_with_its_reason(tmp_path):
    at_ms, shown = next((at_ms, event) for at_ms, events in PLAN for event in events if isinstance(event, Impression))
    stranger = replace(shown, bucket="nobody", impression_id="x")
    orphan = Click("no such list", "s", 1, at_ms)
    with Embedded(tmp_path, SETTINGS) as loop:
        loop.append([stranger, orphan], at_ms=at_ms)
        loop.step(at_ms + 1_000_000)
        [ledger] = loop.ledgers.values()
    assert (ledger.dead_impressions, ledger.late) == (1, 1)
    [letter] = [
        decode(r.value, DeadLetter) for b in Archive(tmp_path).log("dead-letters", 0).read() for r in b.records()
    ]
    assert "unknown bucket 'nobody'" in letter.reason
    [late] = [decode(r.value, Click) for b in Archive(tmp_path).log("late-clicks", 0).read() for r in b.records()]
    assert late == orphan


def test_time_does_not_go_back(tmp_path):
    with Embedded(tmp_path, SETTINGS) as loop:
        loop.step(START)
        with pytest.raises(ValueError, match="append later"):
            loop.append([], at_ms=START - 1)
        with pytest.raises(ValueError, match="cannot be"):
            loop.step(START - 1)


def test_directories_of_others_are_refused(tmp_path):
    with Embedded(tmp_path, SETTINGS, partitions=2), pytest.raises(ArchiveError, match="another process writes"):
        Embedded(tmp_path, SETTINGS)
    with pytest.raises(ArchiveError, match="has 2 partitions, not 3"):
        Embedded(tmp_path, SETTINGS, partitions=3)
    play(tmp_path / "b", PLAN[:20])
    (tmp_path / "b" / "standing.json").unlink()
    with pytest.raises(ArchiveError, match="holds samples that no embedded runner wrote"):
        Embedded(tmp_path / "b", SETTINGS)
    (tmp_path / "b" / "standing.json").write_text("{}")
    with pytest.raises(ArchiveError, match=r"standing\.json cannot be read"):
        Embedded(tmp_path / "b", SETTINGS)


def fill(path: Path, plan: list) -> None:
    """Play with files that may not grow at times, and try again what failed, as after a full disk."""
    with Embedded(path, SETTINGS, codec="null") as loop:
        for number, (at_ms, events) in enumerate(plan):
            if number % 2:
                most = max(file.stat().st_size for file in (path / "impressions").rglob("*.avro")) + 700
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, -1))
            try:
                loop.append(events, at_ms=at_ms)
            except OSError:
                print("full", flush=True)
                resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
                loop.append(events, at_ms=at_ms)
            resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
            loop.step(at_ms)
        loop.step(plan[-1][0] + 1_000_000)
        assert all(ledger.balanced and not ledger.open for ledger in loop.ledgers.values())


def test_a_full_disk_is_survived_by_those_who_try_again(tmp_path):
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r}, run_name='filler')", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("full") > 2
    with Embedded(tmp_path, SETTINGS):
        assert hashes(tmp_path) == look_at_all(PLAN)


def test_after_a_step_that_failed_it_must_be_made_again(tmp_path):
    with Embedded(tmp_path, SETTINGS) as loop:
        for at_ms, events in PLAN:
            loop.append(events, at_ms=at_ms)
        standing = tmp_path / "standing.json"
        aside = standing.rename(tmp_path / "aside")
        standing.mkdir()  # so that nothing can be committed
        with pytest.raises(OSError):
            loop.step(at_ms + 1_000_000)
        standing.rmdir()
        aside.rename(standing)
        for again in (partial(loop.step, at_ms + 1_000_000), partial(loop.append, [], at_ms=at_ms + 1_000_000)):
            with pytest.raises(StepFailed, match="open it again"):
                again()
    with Embedded(tmp_path, SETTINGS) as loop:
        loop.step(at_ms + 1_000_000)
    assert hashes(tmp_path) == look_at_all(PLAN)


def step_on_demand() -> None:
    print("step", flush=True)
    sys.stdin.readline()


if __name__ == "player":
    play(Path(sys.argv[1]), PLAN, say=step_on_demand)

if __name__ == "filler":
    fill(Path(sys.argv[1]), PLAN)
