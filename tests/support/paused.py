"""Servers that are frozen for a while: they keep their connections and answer nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.local import LocalKafka, LocalRedis


@contextmanager
def paused(server: LocalKafka | LocalRedis) -> Iterator[None]:
    """Freeze a server (SIGSTOP), and let it go on afterwards."""
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    give_up_at = time.monotonic() + 2
    # a busy machine stops its threads one by one, and any of them may still answer (seen on Linux, told in /proc)
    while time.monotonic() < give_up_at and any(
        state(task) != "T" for task in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        time.sleep(0.001)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def state(stat: Path) -> str:
    """Return the letter for what a thread does, T when it is stopped or has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"
