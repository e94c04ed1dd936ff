"""The time at the end of logs that may be silent: from their stamps and a monotonic clock, never a wall clock."""

from __future__ import annotations

from streams.join.log_part import NEVER


class IdleTime:
    """What time it must be by now: the latest that was heard, and the time since by a clock that only runs forward.

    A worker's wall clock may be a day ahead, and what it says would stay in the commits. Logs without any stamp have no
    time: ``now_ms`` is NEVER then, which closes nothing.

    >>> idle = IdleTime()
    >>> idle.heard(1_000_000, at_s=5.0)
    >>> idle.heard(1_000_500, at_s=9.0)
    >>> idle.now_ms(at_s=10.0)
    1005000
    """

    def __init__(self) -> None:
        self._heard_ms, self._at_s = NEVER, 0.0

    def heard(self, time_ms: int, *, at_s: float) -> None:
        """Note that it is ``time_ms`` at least (see ``SessionJoin.time_ms``), when a monotonic clock says ``at_s``."""
        if time_ms > self.now_ms(at_s=at_s):
            self._heard_ms, self._at_s = time_ms, at_s

    def now_ms(self, *, at_s: float) -> int:
        """Return what time it is when a monotonic clock says ``at_s``."""
        since_ms = int((at_s - self._at_s) * 1000) if self._heard_ms > NEVER else 0
        return self._heard_ms + since_ms
