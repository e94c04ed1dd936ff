"""What a join has to write since its last checkpoint: samples, dead letters, late clicks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from schemas.records import DeadLetter, SampleBatch
from streams.logs import LogRecord, cut_to_fit

ENTRY_BYTES = 128  # of a record beside what it carries: topic, offsets, lengths, the broker's own


class Outbox:
    """Collects what the next checkpoint must write; while ``muted``, what was written before is not repeated.

    Parameters
    ----------
    most_bytes
        Of a record's value that a dead letter keeps: what is larger than any event is no event from there on.
    """

    def __init__(self, *, partition: int, most_bytes: int) -> None:
        self.partition, self._most_bytes = partition, most_bytes
        self.muted = False
        self.bytes = 0  # about, of all that waits here
        self.samples: list[SampleBatch] = []
        self.dead_letters: list[DeadLetter] = []
        self.late_clicks: list[LogRecord] = []
        self.click_delays: list[NDArray[np.int64]] = []
        self.early_clicks = self.orphan_clicks = 0

    def refuse(self, topic: str, record: LogRecord, reason: str, *, unheard: bool = False) -> None:
        """Write a dead letter, cut to fit; ``unheard`` ones even when muted."""
        if unheard or not self.muted:
            letter = DeadLetter(
                topic, self.partition, record.offset, record.timestamp, record.key, record.value, reason
            )
            letter = cut_to_fit(letter, max_bytes=self._most_bytes)
            self.dead_letters.append(letter)
            self.bytes += len(letter.key or b"") + len(letter.value or b"") + len(letter.reason) + ENTRY_BYTES

    def late(self, topic: str, clicks: Iterable[LogRecord], *, unheard: bool = False) -> None:
        """Write clicks that no list can take; ``unheard`` ones even when muted."""
        if self.muted and not unheard:
            return
        for click in clicks:
            size = len(click.key or b"") + len(click.value or b"")
            if size > self._most_bytes:  # it came in before there was a limit, and may be too large to be written again
                self.refuse(topic, click, f"late, and too large for a late click: {size} bytes", unheard=unheard)
            else:
                self.late_clicks.append(click)
                self.bytes += size + ENTRY_BYTES

    def sample(self, records: Iterable[SampleBatch]) -> None:
        """Write samples."""
        if not self.muted:
            for record in records:
                self.samples.append(record)
                self.bytes += len(record.positions) * (18 + 4 * record.dim) + len(record.impression_ids) * ENTRY_BYTES

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

    def clear(self) -> None:
        """Begin anew, once all was taken."""
        self.samples, self.dead_letters, self.late_clicks, self.click_delays = [], [], [], []
        self.bytes = self.early_clicks = self.orphan_clicks = 0
