"""Every border, fuzzed for FUZZ_S seconds each (60); what breaks one is made small and kept in tests/corpus."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_targets import TARGETS

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("FUZZ_S", "60"))


@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_break_a_border(name, tmp_path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), str(HERE.parent / "support")])}
    command = [sys.executable, str(HERE / "fuzz.py"), name, str(tmp_path), str(SECONDS)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, errors="replace", check=False)
    for broken in [*tmp_path.glob("crash-*"), *tmp_path.glob("timeout-*"), *tmp_path.glob("oom-*")]:
        case = HERE.parent / "corpus" / name / broken.name
        case.parent.mkdir(parents=True, exist_ok=True)
        case.write_bytes(smallest(broken.read_bytes(), TARGETS[name].take))
        pytest.fail(f"{case} breaks {name}; give it a name that says how, and mend it:\n{done.stderr[-2000:]}")
    assert done.returncode == 0, done.stderr[-2000:]


def smallest(data: bytes, take: Callable[[bytes], object]) -> bytes:
    """Return what is left of bytes that break a border when every part that does not matter is taken out."""
    if not breaks(data, take):  # what only took too long, or too much, stays as it is
        return data
    before, size = b"", len(data)
    while size >= 1:
        start = 0
        while start < len(data):
            less = data[:start] + data[start + size :]
            if breaks(less, take):
                data = less
            else:
                start += size
        size = (
            len(data) if data != before and size == 1 else size // 2
        )  # once more, as long as that takes away anything
        before = data
    return data


def breaks(data: bytes, take: Callable[[bytes], object]) -> bool:
    try:
        take(data)
    except Exception:
        return True
    return False


def test_a_broken_case_is_made_small():
    assert (
        smallest(b"much before BAD and after", lambda data: int(b"BAD" not in data) / int(b"BAD" not in data)) == b"BAD"
    )
