"""Several jobs as child processes that live and end together, with one exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from streams.local import end_with_parent


def supervise(
    commands: Mapping[str, Sequence[str]], *, grace_s: float = 12.0, environ: Mapping[str, str] | None = None
) -> int:
    """Run ``commands`` until SIGTERM or Ctrl-C, or until one of them ends, and return the exit code.

    A signal is passed on, and the code is 0 if all end well. When one ends by itself, the others are asked to end too
    and the code is not 0, so that whoever watches us starts all of them again. Who does not end in time is killed.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
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
        end(list(children.values()), grace_s=grace_s)
        for number, handler in before.items():
            signal.signal(number, handler)
    fine = (0,) if ended else (0, -signal.SIGTERM)  # a child may be asked before it has learned to listen
    codes = [abs(children[name].returncode) for name in ended or children if children[name].returncode not in fine]
    return max(codes, default=1 if ended else 0)


def end(children: Sequence[subprocess.Popen[bytes]], *, grace_s: float) -> None:
    """Ask processes to end, and kill those that still run after ``grace_s``."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + grace_s
    for child in children:
        try:
            child.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
