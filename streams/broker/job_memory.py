"""Memory of a job that it has freed, given back to the system."""

from __future__ import annotations

import ctypes


class JobMemory:
    """Gives memory back when a job holds half of what it held at its peak: the C library may keep it for ever.

    >>> memory = JobMemory()
    >>> memory.holds(1_000), memory.holds(400), memory.holds(300)
    (False, True, False)
    """

    def __init__(self) -> None:
        self._most = 0

    def holds(self, things: int) -> bool:
        """Note how many things are held now; return whether memory was given back."""
        self._most = max(self._most, things)
        if things >= self._most / 2:
            return False
        self._most = things
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others have their own ways
        if trim is not None:
            trim(0)
        return True
