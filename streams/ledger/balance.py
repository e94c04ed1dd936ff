"""The balance of each partition: what its ledger says, what was written, and what does not add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streams.join import Ledger
from streams.ledger.counts import OUTPUTS, Written
from streams.ledger.learned import Learned


@dataclass(slots=True)
class Audit:
    """The balance, and what is wrong with it."""

    ledgers: Mapping[int, Ledger]
    written: Written
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    learned: Sequence[Learned] = ()

    def check_committed(self, before: Mapping[int, Ledger], *, topic_prefix: str) -> None:
        """Hold what was written against the ledgers: those ``before`` counting at least, those after it at most."""
        self._check_ledgers()
        written = self.written
        for number, most in self.ledgers.items():
            least = before.get(number, Ledger())
            if "samples" in written.whole:
                found = written.of(number)
                self._check(number, "lists in samples", found.lists, least.lists, most.lists)
                self._check(number, "corrections in samples", found.corrections, least.corrections, most.corrections)
            if "dead-letters" in written.whole:
                shown = sum(written.dead[name, number] for name in {"impressions", f"{topic_prefix}impressions"})
                clicked = sum(written.dead[name, number] for name in {"clicks", f"{topic_prefix}clicks"})
                low, high = (one.dead_impressions + one.too_late for one in (least, most))
                self._check(number, "impressions in dead-letters", shown, low, high)
                self._check(number, "clicks in dead-letters", clicked, least.dead_clicks, most.dead_clicks)
        if "late-clicks" in written.whole:
            low, high = (sum(ledger.late for ledger in some.values()) for some in (before, self.ledgers))
            if not low <= written.late <= high:
                self.problems.append(f"late-clicks holds {written.late} clicks, the ledgers say {_range(low, high)}")

    def check_rejoined(self, gaps: Mapping[tuple[str, int], int]) -> None:
        """Hold what was written against the ledgers of the same events, joined again; open lists may be in it."""
        self._check_ledgers()
        if "samples" in self.written.whole:
            for number, ledger in self.ledgers.items():
                found, most = self.written.of(number).lists, ledger.lists + ledger.open
                self._check(number, "lists in samples", found, ledger.lists, most)
        for (topic, number), missing in gaps.items():
            if missing:
                self.problems.append(f"{topic} {number}: {missing} offsets have no record; were they lost?")

    def check_learned(self, learned: Sequence[Learned], *, live: bool) -> None:
        """Hold the rounds of each bucket's snapshot against the samples below its stamp; ``live``, all must be learned.

        Copied topics may have been copied at different times, so what waits there is only noted.
        """
        self.learned = learned
        for one in learned:
            if {"samples", "dead-letters"} <= self.written.whole and not one.balanced:
                self.problems.append(f"{one}: that is not the same")
            if one.waiting and live:
                self.problems.append(f"{one.waiting} lists of {one.where} are in no snapshot; see: glimpse lag")
            elif one.waiting:
                self.notes.append(f"{one.waiting} lists of {one.where} are in no snapshot of this copy")

    def note_incomplete(self, there: Mapping[str, bool]) -> None:
        """Note the topics that were not compared, and why: ``there`` tells which topics there are."""
        for topic in OUTPUTS:
            if topic not in self.written.whole:
                why = "its oldest records were deleted" if there[topic] else "it is not there"
                self.notes.append(f"{topic} was not compared: {why}")

    def _check_ledgers(self) -> None:
        for number, ledger in self.ledgers.items():
            if not ledger.balanced:
                counts = ", ".join(f"{name} {count}" for name, count in ledger.counts().items())
                self.problems.append(f"partition {number} does not balance: {counts}")
        for (number, bucket), count in sorted(self.written.samples.items()):
            name = f"partition {number}, {bucket}"
            if count.again:
                self.problems.append(
                    f"{name}: lists were taken back that had been taken back before, {count.again} times"
                )
            if "samples" in self.written.whole and count.taken_back > count.lists:
                self.problems.append(
                    f"{name}: {count.taken_back} lists were taken back of {count.lists} that were there"
                )

    def _check(self, number: int, what: str, found: int, low: int, high: int) -> None:
        if not low <= found <= high:
            self.problems.append(f"partition {number}: {found} {what}, the ledger says {_range(low, high)}")


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
