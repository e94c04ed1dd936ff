"""Any number of simulated runs: SIMULATION_SEEDS=100000 make soak; a seed that fails is printed, and replays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "simulate.py"
FIRST, SEEDS, STEP = 1_000, int(os.environ.get("SIMULATION_SEEDS", "20000")), 500  # those below are in make test


@pytest.mark.timeout(300 + SEEDS)  # a tenth of that on an idle machine
def test_many_runs_are_exact_and_come_to_rest():
    failed = {}
    for first in range(FIRST, FIRST + SEEDS, STEP):
        command = [sys.executable, str(PROGRAM), str(first), str(first + STEP)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        failed |= json.loads(done.stdout.splitlines()[-1])["failed"]
    assert failed == {}, "; ".join(f"python {PROGRAM} {seed} {int(seed) + 1}" for seed in failed)
