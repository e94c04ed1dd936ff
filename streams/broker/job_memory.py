"""Memory of a job that it has freed: kept for what comes next, and given back to the system now and then."""

from __future__ import annotations

import ctypes
import gc

GIVE_BACK_S = 30.0  # at a low rate Python looks for garbage every few hours, and large answers of the broker lie about

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # numbers of glibc's mallopt
KEPT_BYTES, LARGE_BYTES = 256 << 20, 32 << 20  # the latter is the most that it takes


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
