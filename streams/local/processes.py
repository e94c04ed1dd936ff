"""Processes that share this machine's cores, and end together."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile do their products in one thread, since the others have the cores.

    A number of threads that somebody has set stays.
    """
    ours = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed, where the kernel can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def supervise(
    commands: Mapping[str, Sequence[str]], *, grace_s: float = 12.0, environ: Mapping[str, str] | None = None
) -> int:
    """Run ``commands`` until SIGTERM or Ctrl-C, or until one of them ends, and return the exit code.

    A signal is passed on, and the code is 0 if all end well. When one ends by itself, the others are asked to end too
    and the code is not 0, so that whoever watches us starts all of them again. Who does not end in time is killed.
    """
    asked: list[int] = []
    ends = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda asked_by, _: asked.append(asked_by)) for number in ends}
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            # in a session of its own, a child does not meet the terminal's Ctrl-C before we pass it on
            children[name] = subprocess.Popen(command, start_new_session=True, preexec_fn=end_with_parent, env=environ)
        while not asked and all(child.poll() is None for child in children.values()):
            time.sleep(0.05)
        ended = [] if asked else [name for name, child in children.items() if child.returncode is not None]
        for name in ended:
            print(f"glimpse: {name} ended with code {children[name].returncode}", file=sys.stderr)
    finally:
        end_processes(children.values(), grace_s=grace_s)
        for number, handler in before.items():
            signal.signal(number, handler)
    fine = (0,) if ended else (0, -signal.SIGTERM)  # a child may be asked before it has learned to listen
    codes = [abs(children[name].returncode) for name in ended or children if children[name].returncode not in fine]
    return max(codes, default=1 if ended else 0)


def end_processes(children: Iterable[subprocess.Popen[bytes] | BaseProcess], *, grace_s: float) -> None:
    """Ask the processes that were started to end, and kill those that still run after ``grace_s``."""
    started = [child for child in children if child.pid is not None]
    for child in started:
        child.terminate()
    deadline = time.monotonic() + grace_s
    for child in started:
        wait = child.wait if isinstance(child, subprocess.Popen) else child.join
        with suppress(subprocess.TimeoutExpired):
            wait(max(0.0, deadline - time.monotonic()))
        child.kill()
        wait()
