"""A join fed event by event, for tests of single behaviours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance
from streams.join import SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket

WAIT, LATENESS, FUTURE = 60_000, 60_000, 30_000
T0 = 1_700_000_000_000
BUCKET = Bucket("main", dim=2, positions=6, reward_scale=2.0)


class World:
    """A join, fed event by event; ``at`` is seconds after T0, of the event and of its record unless told."""

    def __init__(self, resume=None, buckets=None, wait=WAIT):
        accept = Acceptance(buckets or {"main": BUCKET}, future_ms=FUTURE)
        self.join = SessionJoin(accept, wait_ms=wait, lateness_ms=WAIT + LATENESS - wait, resume=resume)
        self.offsets = {"impressions": 0, "clicks": 0}

    def give(self, log, record, at, arrives=None):
        value = record if isinstance(record, bytes) else encode(record)
        timestamp = T0 + round(1000 * (at if arrives is None else arrives))
        getattr(self.join, f"add_{log}")([LogRecord(self.offsets[log], timestamp, b"s", value)])
        self.offsets[log] += 1

    def show(self, name="i", at=0.0, *, arrives=None, size=6, rendered=6, **changes):
        items = np.arange(1, size + 1, dtype="<i8").tobytes()
        contexts = np.linspace(-1, 1, size * 2, dtype="<f4").tobytes()
        plain = Impression(name, "s", "main", "u", T0 + round(1000 * at), items, contexts, rendered)
        self.give("impressions", replace(plain, **changes), at, arrives)

    def click(self, position, at=1.0, *, name="i", arrives=None, reward=1.0):
        self.give("clicks", Click(name, "s", position, T0 + round(1000 * at), reward), at, arrives)

    def checkpoint(self, at):
        return self.join.checkpoint(T0 + round(1000 * at))

    def rows(self, at):
        """Close up to ``at``; return (sign, rewards, last clicks) of each list that came out."""
        found = []
        for batch in self.checkpoint(at).samples:
            ends = np.cumsum(batch.sizes_array, dtype=int)
            for sign, start, stop in zip(batch.signs_array.tolist(), ends - batch.sizes_array, ends, strict=True):
                rewards, last = batch.rewards_array[start:stop], batch.last_clicks_array[start:stop]
                found.append((sign, rewards.tolist(), last.tolist()))
        return found
