"""The process of a job: its clocks, what it writes to its log, and memory that it has freed."""

from __future__ import annotations

import ctypes
import gc
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

QUIET_S = 30.0  # between two times that a library says the same
GIVE_BACK_S = 30.0  # at a low rate Python looks for garbage every few hours, and large answers of the broker lie about
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # numbers of glibc's mallopt
KEPT_BYTES, LARGE_BYTES = 256 << 20, 32 << 20  # the latter is the most that it takes


class JobClocks(NamedTuple):
    """Where a job gets the time from; simulations give their own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


REAL_CLOCKS = JobClocks()


def log_of_job() -> None:
    """Write the log of a job to standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("streams").setLevel(logging.INFO)
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)  # takes every large batch for a blocked loop
    for handler in logging.getLogger().handlers:
        handler.addFilter(Seldom())


class Seldom(logging.Filter):
    """Lets a library say the same thing every 30 s: ten times a second is what they do while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether this record should be written."""
        if record.name.startswith("streams"):
            return True
        if record.created - self._said.get((record.name, record.msg), 0.0) < QUIET_S:
            return False
        self._said[record.name, record.msg] = record.created
        return True


def keep_freed_memory() -> None:
    """Have the C library keep what is freed until it is given back here, for the next batch is as large as the last.

    Otherwise it gives each batch back at once, and the system clears as many pages for the next one: a tenth of the
    join's time. To be called before there is another thread: what threads have freed in heaps of their own, nobody
    could give back.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)  # others have their own ways
    if tune is not None:
        tune(M_TRIM_THRESHOLD, KEPT_BYTES)
        tune(M_MMAP_THRESHOLD, LARGE_BYTES)
        tune(M_ARENA_MAX, 1)


def give_memory_back() -> None:
    """Give memory that was freed, and stayed with Python or the C library, back to the system."""
    gc.collect()  # answers of the broker lie in cycles, each of megabytes and of few objects
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others have their own ways
    if trim is not None:
        trim(0)


class JobMemory:
    """Gives memory back when a job holds half of what it held at its peak: the C library may keep it for ever.

    >>> memory = JobMemory()
    >>> for things in (1_000, 400):
    ...     memory.holds(things)
    >>> memory.give_back(), memory.give_back()
    (True, False)
    """

    def __init__(self, *, few: int = 0) -> None:
        self._held = self._most = 0
        self._few = few

    def holds(self, things: int) -> None:
        """Note how many things are held now: often, as a peak may be short."""
        self._held, self._most = things, max(self._most, things)

    def give_back(self) -> bool:
        """Give memory back if much was freed since the peak; return whether it was. Now and then: it takes a while."""
        if self._held >= self._most / 2 or self._most < self._few:
            return False
        self._most = self._held
        give_memory_back()
        return True
