"""Processes that share this machine's cores."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
