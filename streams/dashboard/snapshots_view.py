"""Versions, ages and the movement of θ, from snapshot records."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import NamedTuple

import numpy as np

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Snapshot
from streams.dashboard.source import WeightedRecord
from streams.parameters import Newest, SnapshotCorrupt

HISTORY = 3_600


class ThetaMove(NamedTuple):
    """How far a snapshot's θ is from the one before it."""

    published_ms: int
    moved: float | None  # ‖θ − θ before‖
    norm: float


class Snapshots:
    """The newest snapshot of each bucket and how it came there; older versions and loose chunks change nothing."""

    def __init__(self) -> None:
        self._newest = Newest()
        self.newest = self._newest.by_bucket
        self.moves: defaultdict[str, deque[ThetaMove]] = defaultdict(lambda: deque(maxlen=HISTORY))  # by bucket
        self.published: Counter[str] = Counter()
        self.unreadable = 0

    def add(self, entries: list[WeightedRecord]) -> list[tuple[Snapshot, int]]:
        """Take records and return the snapshots that were news with their records' time stamps, oldest first."""
        news = []
        for entry in entries:
            try:
                record = decode(entry.record.value or b"", max_bytes=2 * MAX_BYTES)
                before = self.newest.get(record.bucket) if isinstance(record, Snapshot) else None
                if isinstance(record, Snapshot) and self._newest.add(record):
                    news.append((self.newest[record.bucket], entry.record.timestamp))
                    self._note(self.newest[record.bucket], before)
            except (SchemaError, SnapshotCorrupt, ValueError):
                self.unreadable += 1
        return news

    def _note(self, snapshot: Snapshot, before: Snapshot | None) -> None:
        theta, moved = snapshot.theta_array, None
        if before is not None and len(before.theta_array) == len(theta):
            moved = float(np.linalg.norm(theta - before.theta_array))
        move = ThetaMove(snapshot.published_at_ms, moved, float(np.linalg.norm(theta)))
        self.moves[snapshot.bucket].append(move)
        self.published[snapshot.bucket] += 1
