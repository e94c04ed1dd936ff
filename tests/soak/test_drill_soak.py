"""`glimpse drill` in its long form: every kind of fault three times, on servers of its own."""

import os
import subprocess
import sys

import pytest


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_fault_three_times(programs, tmp_path, seed):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GLIMPSE_")}
    words = ["drill", "--faults", "24", "--seconds", "15", "--rate", "300", "--seed", seed]
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli", *words],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same bits") == 24
