"""The check behind /livez of both jobs: offsets that stand still while there is lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

STUCK_S = 60.0


class StuckCheck:
    """Tells which partitions have lag and have not moved for a minute.

    >>> now = [0.0]
    >>> check = StuckCheck(clock=lambda: now[0])
    >>> for now[0] in (0.0, 61.0):
    ...     check.note({3: 17}, lagging=lambda partition: True)
    >>> check.stuck()
    'partitions [3] have lag and have not moved for 60 s'
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stood: dict[int, tuple[int | None, float]] = {}  # its offset, and since when it is there with lag

    def note(self, offsets: Mapping[int, int | None], *, lagging: Callable[[int], bool]) -> None:
        """Note where each partition is; those that are not named any more are forgotten."""
        now, before = self._clock(), self._stood
        self._stood = {
            partition: before[partition]
            if partition in before and before[partition][0] == offset and lagging(partition)
            else (offset, now)
            for partition, offset in offsets.items()
        }

    def stuck(self) -> str | None:
        """Return which partitions stand still, in words, or None."""
        now = self._clock()
        found = [partition for partition, (_, since) in self._stood.items() if now - since > STUCK_S]
        return f"partitions {found} have lag and have not moved for {STUCK_S:g} s" if found else None
