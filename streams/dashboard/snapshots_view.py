"""Versions, ages and the movement of θ, from snapshot records."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Progress, Snapshot
from streams.dashboard.source import WeightedRecord
from streams.parameters import Newest, SnapshotCorrupt

HISTORY = 3_600


class ThetaMove(NamedTuple):
    """How far a snapshot's θ is from the one before it."""

    published_ms: int
    moved: float | None  # ‖θ − θ before‖
    norm: float


@dataclass(slots=True)
class ThetaMoves:
    """How a bucket's θ has moved, snapshot by snapshot."""

    newest: deque[ThetaMove] = field(default_factory=lambda: deque(maxlen=HISTORY))
    count: int = 0


class Snapshots:
    """The newest snapshot of each bucket and how it came there; older versions and loose chunks change nothing."""

    def __init__(self) -> None:
        self._newest = Newest()
        self.moves: dict[str, ThetaMoves] = {}
        self.progress: dict[int, Progress] = {}
        self.unreadable = 0

    @property
    def newest(self) -> dict[str, Snapshot]:
        """The newest whole snapshot by bucket."""
        return self._newest.by_bucket

    def add(self, entries: list[WeightedRecord]) -> list[tuple[Snapshot, int]]:
        """Take records and return the snapshots that were news with their records' time stamps, oldest first."""
        news = []
        for entry in entries:
            try:
                record = decode(entry.record.value or b"", max_bytes=2 * MAX_BYTES)
                if isinstance(record, Progress):
                    self.progress[record.samples_partition] = record
                elif isinstance(record, Snapshot):
                    before = self.newest.get(record.bucket)
                    if self._newest.add(record):
                        news.append((self.newest[record.bucket], entry.record.timestamp))
                        self._note(news[-1][0], before)
            except (SchemaError, SnapshotCorrupt, ValueError):
                self.unreadable += 1
        return news

    def _note(self, snapshot: Snapshot, before: Snapshot | None) -> None:
        theta = snapshot.theta_array
        same_kind = before is not None and len(before.theta_array) == len(theta)
        moves = self.moves.setdefault(snapshot.bucket, ThetaMoves())
        moves.count += 1
        moved = float(np.linalg.norm(theta - before.theta_array)) if before and same_kind else None
        moves.newest.append(ThetaMove(snapshot.published_at_ms, moved, float(np.linalg.norm(theta))))
