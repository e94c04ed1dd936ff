"""A join fed event by event, for tests of single behaviours."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from schemas.codec import encode
from schemas.records import Click, Impression
from streams.events import Acceptance, EventReader
from streams.join import SessionJoin
from streams.logs import LogRecord
from streams.settings import Bucket

WAIT, LATENESS, FUTURE = 60_000, 60_000, 30_000
T0 = 1_700_000_000_000
BUCKET = Bucket("main", dim=2, positions=6, reward_scale=2.0)


class World:
    """A join, fed event by event; ``at`` is seconds after T0, of the event and of its record unless told."""

    def __init__(self, resume=None, buckets=None, wait=WAIT, known=None):
        accept = Acceptance(buckets or {"main": BUCKET}, future_ms=FUTURE)
        times = {"wait_ms": wait, "lateness_ms": WAIT + LATENESS - wait}
        self.join = SessionJoin(accept, **times, resume=resume, known=known, reader=EventReader())
        self.offsets = {"impressions": 0, "clicks": 0}
        self.written = {"impressions": {}, "clicks": {}}
        self.known = known or {}

    def give(self, log, record, at, arrives=None, key=b"s"):
        value = record if isinstance(record, bytes) else encode(record)
        timestamp = T0 + round(1000 * (at if arrives is None else arrives))
        record = self.written[log][self.offsets[log]] = LogRecord(self.offsets[log], timestamp, key, value)
        getattr(self.join, f"add_{log}")([record])
        self.offsets[log] += 1

    def time_passes(self, at, *logs):
        """Let two sessions write something that is no event, so that the clocks of these logs (of both) stand there."""
        for log in logs or self.offsets:
            for key in (b"one", b"two"):
                self.give(log, b"nothing", at, key=key)

    def show(self, name="i", at=0.0, *, arrives=None, size=6, rendered=6, key=b"s", **changes):
        items = np.arange(1, size + 1, dtype="<i8").tobytes()
        contexts = np.linspace(-1, 1, size * 2, dtype="<f4").tobytes()
        plain = Impression(name, "s", "main", "u", T0 + round(1000 * at), items, contexts, rendered)
        self.give("impressions", replace(plain, **changes), at, arrives, key)

    def click(self, position, at=1.0, *, name="i", arrives=None, reward=1.0, session="s", key=b"s"):
        self.give("clicks", Click(name, session, position, T0 + round(1000 * at), reward), at, arrives, key)

    def checkpoint(self, at):
        found = self.join.checkpoint(T0 + round(1000 * at))
        self.known |= {rules.hash: rules.rules for rules in found.rules}
        return found

    def rows(self, at):
        """Close up to ``at``; return (sign, rewards, last clicks) of each list that came out."""
        found = []
        for batch in self.checkpoint(at).samples:
            ends = np.cumsum(batch.sizes_array, dtype=int)
            for sign, start, stop in zip(batch.signs_array.tolist(), ends - batch.sizes_array, ends, strict=True):
                rewards, last = batch.rewards_array[start:stop], batch.last_clicks_array[start:stop]
                found.append((sign, rewards.tolist(), last.tolist()))
        return found
