"""What a join has to write since its last checkpoint: samples, dead letters, late clicks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from schemas.records import DeadLetter, SampleBatch
from streams.logs import LogRecord


class Outbox:
    """Collects what the next checkpoint must write; while ``muted``, what was written before is not repeated."""

    def __init__(self, *, partition: int) -> None:
        self.partition = partition
        self.muted = False
        self.samples: list[SampleBatch] = []
        self.dead_letters: list[DeadLetter] = []
        self.late_clicks: list[LogRecord] = []
        self.click_delays: list[NDArray[np.int64]] = []
        self.early_clicks = self.orphan_clicks = 0

    def refuse(self, topic: str, record: LogRecord, reason: str, *, unheard: bool = False) -> None:
        """Write a dead letter; ``unheard`` ones even when muted."""
        if unheard or not self.muted:
            self.dead_letters.append(
                DeadLetter(topic, self.partition, record.offset, record.timestamp, record.key, record.value, reason)
            )

    def late(self, clicks: Iterable[LogRecord], *, unheard: bool = False) -> None:
        """Write clicks that no list can take; ``unheard`` ones even when muted."""
        if unheard or not self.muted:
            self.late_clicks += clicks

    def sample(self, records: Iterable[SampleBatch]) -> None:
        """Write samples."""
        if not self.muted:
            self.samples += records

    def delayed(self, click_delays_ms: NDArray[np.int64]) -> None:
        """Note how long after its list was shown each click was made."""
        if not self.muted:
            self.click_delays.append(click_delays_ms)

    def early(self, clicks: int) -> None:
        """Note clicks whose list has come after them."""
        if not self.muted:
            self.early_clicks += clicks

    def orphaned(self, clicks: int) -> None:
        """Note late clicks whose list was never seen."""
        if not self.muted:
            self.orphan_clicks += clicks
