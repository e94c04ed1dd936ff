"""What a join has to write since its last checkpoint: samples, dead letters, late clicks; and the checkpoint itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import DeadLetter, Rules, SampleBatch
from streams.join.commit import Commit
from streams.logs import LogRecord, cut_to_fit

ENTRY_BYTES = 128  # of a record beside what it carries: topic, offsets, lengths, the broker's own


class HeldLetter(NamedTuple):
    """A refused click that finds no room yet; held in the order of the lists that refused them, then of the clicks."""

    list_offset: int
    click_offset: int
    letter: DeadLetter


class Outbox:
    """Collects what the next checkpoint must write; while ``muted``, what was written before is not repeated.

    A dead letter keeps ``most_bytes`` of a record's value: what is larger than any event is no event from there on.
    """

    def __init__(self, *, partition: int, most_bytes: int) -> None:
        self.partition, self._most_bytes = partition, most_bytes
        self.muted = False
        self.limit: int | None = None  # of ``bytes``
        self.held: deque[HeldLetter] = deque()  # one list may refuse more early clicks at once than a transaction holds
        self.bytes = 0  # about, of all that waits here
        self.samples: list[SampleBatch] = []
        self.dead_letters: list[DeadLetter] = []
        self.late_clicks: list[LogRecord] = []
        self.click_delays: list[NDArray[np.int64]] = []
        self.early_clicks = self.orphan_clicks = 0

    @property
    def full(self) -> bool:
        """Whether a letter that can wait must wait."""
        return bool(self.held) or (self.limit is not None and self.bytes >= self.limit)

    def refuse(self, topic: str, records: Sequence[LogRecord], reasons: Mapping[int, str]) -> None:
        """Write dead letters of some of the records, cut to fit; ``reasons`` are by index."""
        if not self.muted:
            for index, reason in reasons.items():
                self._write(self._letter(topic, records[index], reason))

    def hold(self, list_offset: int, topic: str, record: LogRecord, reason: str) -> None:
        """Keep the letter of a click that the list at ``list_offset`` refused until there is room; muted or not."""
        self.held.append(HeldLetter(list_offset, record.offset, self._letter(topic, record, reason)))

    def release(self, most_bytes: int | None) -> int:
        """Write the first of the held letters, about so many bytes, one at least; return how many."""
        before, count = self.bytes, 0
        while self.held and (not count or most_bytes is None or self.bytes - before < most_bytes):
            self._write(self.held.popleft().letter)
            count += 1
        return count

    def _letter(self, topic: str, record: LogRecord, reason: str) -> DeadLetter:
        letter = DeadLetter(topic, self.partition, record.offset, record.timestamp, record.key, record.value, reason)
        return cut_to_fit(letter, max_bytes=self._most_bytes)

    def _write(self, letter: DeadLetter) -> None:
        self.dead_letters.append(letter)
        self.bytes += len(letter.key or b"") + len(letter.value or b"") + len(letter.reason) + ENTRY_BYTES

    def late(self, topic: str, clicks: Iterable[LogRecord]) -> None:
        """Write clicks that no list can take."""
        if self.muted:
            return
        for click in clicks:
            size = len(click.key or b"") + len(click.value or b"")
            if size > self._most_bytes:  # it came in before there was a limit, and may be too large to be written again
                self._write(self._letter(topic, click, f"late, and too large for a late click: {size} bytes"))
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

    def checkpoint(self, commit: Commit, rules: list[Rules]) -> Checkpoint:
        """Return all that is to be written, with the commit and the rules that go with it; begin anew."""
        delays = np.concatenate(self.click_delays) if self.click_delays else np.zeros(0, np.int64)
        counts = self.early_clicks, self.orphan_clicks
        checkpoint = Checkpoint(self.samples, self.dead_letters, self.late_clicks, commit, delays, *counts, rules)
        self.clear()
        return checkpoint

    def clear(self) -> None:
        """Begin anew; what finds no room yet stays."""
        self.samples, self.dead_letters, self.late_clicks, self.click_delays = [], [], [], []
        self.bytes = self.early_clicks = self.orphan_clicks = 0


class Checkpoint(NamedTuple):
    """What one consistent checkpoint must write, all of it or nothing, and where a restart goes on from it."""

    samples: list[SampleBatch]
    dead_letters: list[DeadLetter]
    late_clicks: list[LogRecord]
    commit: Commit
    click_delays_ms: NDArray[np.int64]  # from shown to clicked, of the first clicks on a position
    early_clicks: int  # read before their list, which has come since the last checkpoint
    orphan_clicks: int  # of the late ones, those whose list was never seen
    rules: list[Rules]  # of eras that this commit is the first to name: for ``parameters``, with the topic's id put in
