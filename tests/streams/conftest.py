"""What several tests of replay share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from replay_runs import play


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[int, Path]:
    """The same live run on 1 and on 3 partitions."""
    folders = {partitions: tmp_path_factory.mktemp(f"run{partitions}") for partitions in (1, 3)}
    for partitions, folder in folders.items():
        play(folder, partitions)
    return folders


@pytest.fixture
def own(runs, tmp_path) -> Path:
    """A copy to break."""
    return shutil.copytree(runs[1], tmp_path / "own")
