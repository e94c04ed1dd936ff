"""Health pages of a join worker: /livez, /readyz, /metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from streams.join.job.metrics import JoinMetrics
from streams.join.job.owner import JoinOwner
from streams.join.outbox import Checkpoint
from streams.settings import EVENTS, LogPair
from streams.web import STUCK_S, StuckCheck

SHOW_EVERY_S = 1.0


class JoinWatch:
    """Judges a worker: ready is assigned and rebuilt, alive is that offsets move while there is lag."""

    def __init__(
        self,
        owners: Mapping[int, JoinOwner],
        topics: LogPair[str] = EVENTS,
        *,
        wait_s: float = 600.0,
        lateness_s: float = 600.0,
    ) -> None:
        self._owners = owners
        self.assigned = False
        self._turned_at, self._shown_at = time.monotonic(), -SHOW_EVERY_S
        self._stuck = StuckCheck()
        self.figures = JoinMetrics(topics, wait_s=wait_s, lateness_s=lateness_s)

    @property
    def joined(self) -> dict[int, JoinOwner]:
        """The partitions that are joined; for the thread that joins them."""
        return {number: owner for number, owner in self._owners.items() if owner.is_open}

    @property
    def refused(self) -> dict[int, str]:
        """Why some partitions are not joined."""
        owners = list(self._owners.items())  # a copy: the health pages ask from another thread
        return {number: why for number, owner in owners if (why := owner.refused)}

    def turned(self) -> None:
        """Note a turn of the loop."""
        self._turned_at = now = time.monotonic()
        joined = self.joined
        offsets = {number: sum(log.clock.offset for log in owner.logs) for number, owner in joined.items()}
        self._stuck.note(offsets, lagging=lambda number: any(joined[number].behind))
        if now - self._shown_at >= SHOW_EVERY_S:  # an idle join commits nothing, and has figures all the same
            self._shown_at = now
            for number, owner in joined.items():
                self.figures.stands(number, kept=len(owner.join), behind=owner.behind)

    def committed(self, checkpoints: Mapping[int, Checkpoint], *, seconds: float, record_bytes: int) -> None:
        """Note a transaction."""
        self.figures.committed(seconds, record_bytes)
        joined, now_ms = self.joined, int(time.time() * 1000)
        for number, checkpoint in checkpoints.items():
            kept, behind = len(joined[number].join), joined[number].behind
            self.figures.checkpoint(number, checkpoint, kept=kept, behind=behind, now_ms=now_ms)

    def ready(self) -> str | None:
        """Return what is missing before every assigned partition is joined, or None."""
        if not self.assigned:
            return "the group has not assigned partitions yet, or some have not begun"
        if refused := self.refused:
            return "refused: " + "; ".join(refused.values())
        rebuilding = [number for number, owner in list(self._owners.items()) if owner.rebuilding]
        return f"partitions {rebuilding} are being rebuilt" if rebuilding else None

    def live(self) -> str | None:
        """Return what stands still, or None."""
        now = time.monotonic()
        if now - self._turned_at > STUCK_S:
            return f"the loop has not turned for {now - self._turned_at:.0f} s"
        return self._stuck.stuck()
