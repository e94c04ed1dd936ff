"""Supervision of real child processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

SUPERVISOR = """
import sys
from streams.local import supervise
sys.exit(supervise({str(i): [sys.executable, "-c", code] for i, code in enumerate(sys.argv[1:])}, grace_s=1.5))
"""
POLITE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
pathlib.Path("polite").touch()
time.sleep(60)
"""
STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("stubborn").write_text(str(__import__("os").getpid()))
time.sleep(60)
"""


def supervisor(folder, *codes):
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, *codes],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(file):
    deadline = time.monotonic() + 20
    while not file.exists() or (file.name == "stubborn" and not file.read_text()):
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_the_end_is_good(tmp_path, number):
    process = supervisor(tmp_path, POLITE, POLITE.replace("polite", "second"))
    wait_for(tmp_path / "polite")
    wait_for(tmp_path / "second")
    process.send_signal(number)
    assert process.wait(timeout=10) == 0


ENDS = {
    "a failure": ("import sys; sys.exit(3)", 3),
    "a silent end": ("", 1),
    "a kill": ("import os; os.kill(os.getpid(), 9)", 9),
}


@pytest.mark.parametrize("code, wanted", ENDS.values(), ids=ENDS)
def test_when_one_ends_all_end_and_the_code_says_so(tmp_path, code, wanted):
    process = supervisor(tmp_path, POLITE, code)
    _, words = process.communicate(timeout=120)
    assert process.returncode == wanted
    assert "glimpse: 1 ended with code" in words


def test_who_does_not_end_in_time_is_killed(tmp_path):
    process = supervisor(tmp_path, STUBBORN)
    wait_for(tmp_path / "stubborn")
    process.terminate()
    assert process.wait(timeout=10) == 9
    assert not alive(int((tmp_path / "stubborn").read_text()))


def test_children_do_not_outlive_a_killed_supervisor(tmp_path):
    code = POLITE.replace("touch()", 'write_text(str(__import__("os").getpid()))').replace('"polite"', '"stubborn"')
    process = supervisor(tmp_path, code)
    wait_for(tmp_path / "stubborn")
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while alive(int((tmp_path / "stubborn").read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(int((tmp_path / "stubborn").read_text()))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
