"""How far the broker's clock is from this machine's, by the times of new commits (pure).

A commit from the future proves that the broker's clock is ahead. That commits always arrive as if they had been made
before the last look proves that it is behind; once alone may be a transaction that took its time.
"""

from __future__ import annotations

from collections import deque

from streams.lag.verdict import spoken

ENOUGH_MS = 2_000  # below this nobody minds
LOOKS = 5


class Clocks:
    """How far the broker's clock is ahead of ours, as far as it is proven.

    >>> clocks = Clocks()
    >>> clocks.note(70_000, now_ms=10_000)
    >>> clocks.ahead_ms, clocks.words
    (60000, "the broker's clock is 60 s ahead of this machine's; times here go by the broker's")
    """

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._looked_ms: int | None = None
        self._behind_ms: deque[int] = deque(maxlen=LOOKS)

    def note(self, newest_ms: int, now_ms: int) -> None:
        """Take in the newest time among the commits that came since the last look, 0 when there was none."""
        before, self._looked_ms = self._looked_ms, now_ms
        if not newest_ms:
            return
        self._behind_ms.append(0 if before is None else max(0, before - newest_ms))
        behind = min(self._behind_ms) if len(self._behind_ms) == LOOKS else 0
        ahead = newest_ms - now_ms
        self.ahead_ms = ahead if ahead > ENOUGH_MS else -behind if behind > ENOUGH_MS else 0

    @property
    def words(self) -> str:
        """What to tell about it."""
        side = "ahead of" if self.ahead_ms > 0 else "behind"
        apart = spoken(abs(self.ahead_ms) / 1000)
        return f"the broker's clock is {apart} {side} this machine's; times here go by the broker's"
