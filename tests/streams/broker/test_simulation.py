"""The real jobs on a broker in memory, a thousand times: what is learned is exact, and all of it is learned soon."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "support" / "simulate.py"
SEEDS, PROCESSES = 1_000, 2
BUGS = (
    *("offsets_before_samples", "membership_unsaid", "failed_means_lost", "failed_means_done"),
    *("state_outlives_its_partition", "rereading_aloud", "seeking_back", "beginning_again", "wall_clock"),
    *("fence_ignored", "stamps_unread", "gaps_unseen", "storm", "promoted_at_once", "candidate_unread"),
    "pending_kept",
)
KINDS = {
    *("crash of a join", "crash of a learn", "request", "answer", "request of a commit", "answer of a commit"),
    *("freeze", "switch", "leave", "join", "away", "silence", "compact", "retention", "partition", "expiry"),
    *("rollout", "out_of_range"),
}


def simulate(*arguments, hash_seed="random"):
    """Begin to run seeds in a process of their own, which has one thread and patches nothing here."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def outcome(process):
    return json.loads(process.communicate()[0].splitlines()[-1])


@pytest.mark.timeout(900)  # about 75 s of CPU, on a machine that may be very busy
def test_a_thousand_runs_are_exact_and_come_to_rest_and_every_fault_strikes():
    each = SEEDS // PROCESSES
    found = [outcome(one) for one in [simulate(n * each, (n + 1) * each) for n in range(PROCESSES)]]
    failed = {seed: why for one in found for seed, why in one["failed"].items()}
    replay = "; ".join(f"python {PROGRAM} {seed} {int(seed) + 1}" for seed in failed)
    assert failed == {}, f"replay: {replay}"
    struck = sum((Counter(one["struck"]) for one in found), Counter())
    assert set(struck) == KINDS
    assert {kind: seeds for kind, seeds in struck.items() if seeds < SEEDS // 20} == {}, "with work pending"


def test_a_seed_is_the_same_run_every_time():
    first, second = (outcome(simulate(0, 8, hash_seed=seed)) for seed in ("1", "2"))
    assert first == second
    assert first["calls"] > 1_000


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_that_is_planted_is_found(bug):
    [why] = outcome(simulate(0, SEEDS, bug))["failed"].values()
    assert why.startswith(("AssertionError", "ValueError: offsets must rise")), "the plant itself is broken"
