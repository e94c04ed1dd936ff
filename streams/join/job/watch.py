"""Health pages of a join worker: /livez, /readyz, /metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from streams.join.job.metrics import JoinMetrics
from streams.join.job.partition import PartitionJoin
from streams.join.ledger import Ledger
from streams.join.outbox import Checkpoint
from streams.web import STUCK_S, StuckCheck

SHOW_EVERY_S = 1.0


class JoinWatch:
    """Judges a worker: ready is assigned and rebuilt, alive is that offsets move while there is lag."""

    def __init__(self, joins: Mapping[int, PartitionJoin], *, wait_s: float = 600.0, lateness_s: float = 600.0) -> None:
        self._joins = joins
        self.assigned = False
        self.refused: Mapping[int, str] = {}
        self._turned_at, self._shown_at = time.monotonic(), -SHOW_EVERY_S
        self._stuck = StuckCheck()
        self.figures = JoinMetrics(wait_s=wait_s, lateness_s=lateness_s)

    def turned(self) -> None:
        """Note a turn of the loop."""
        self._turned_at = now = time.monotonic()
        joined = {number: sum(log.clock.offset for log in one.logs) for number, one in self._joins.items()}
        self._stuck.note(joined, lagging=lambda number: any(log.behind for log in self._joins[number].logs))
        if now - self._shown_at >= SHOW_EVERY_S:  # an idle join commits nothing, and has figures all the same
            self._shown_at = now
            for partition, partition_join in self._joins.items():
                self.figures.stands(partition, kept=len(partition_join.join), behind=behind_of(partition_join))

    def opened(self, partition: int, ledger: Ledger) -> None:
        """Note a partition that has come here, and its ledger so far."""
        self.figures.opened(partition, ledger)

    def committed(self, checkpoints: Mapping[int, Checkpoint], *, seconds: float, record_bytes: int) -> None:
        """Note a transaction."""
        self.figures.committed(seconds, record_bytes)
        for partition, checkpoint in checkpoints.items():
            partition_join = self._joins[partition]
            now_ms = int(time.time() * 1000)
            self.figures.checkpoint(
                partition, checkpoint, kept=len(partition_join.join), behind=behind_of(partition_join), now_ms=now_ms
            )

    def failed(self) -> None:
        """Note that Kafka failed us."""
        self.figures.failed()

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition that is no longer here."""
        self.figures.forget(partition)

    def ready(self) -> str | None:
        """Return what is missing before every assigned partition is joined, or None."""
        if not self.assigned:
            return "the group has not assigned partitions yet, or some have not begun"
        if self.refused:
            return "refused: " + "; ".join(self.refused.values())
        rebuilding = [
            partition for partition, partition_join in list(self._joins.items()) if partition_join.join.rebuilding
        ]
        return f"partitions {rebuilding} are being rebuilt" if rebuilding else None

    def live(self) -> str | None:
        """Return what stands still, or None."""
        now = time.monotonic()
        if now - self._turned_at > STUCK_S:
            return f"the loop has not turned for {now - self._turned_at:.0f} s"
        return self._stuck.stuck()

    def metrics(self) -> str:
        """Return all metrics as Prometheus reads them."""
        return self.figures.render()


def behind_of(partition_join: PartitionJoin) -> tuple[int, int]:
    """Return how many offsets of impressions and of clicks are still to be joined."""
    return partition_join.impressions.behind, partition_join.clicks.behind
