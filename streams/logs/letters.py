"""The dead letters of a log, read once through and counted by kind of reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from schemas.records import DeadLetter
from streams.logs.dead_letters import kind_of, letter_of
from streams.logs.source import LogSource

Bounds = dict[int, tuple[int, int]]  # partition -> first offset, end


class Refusal(NamedTuple):
    """A dead letter with its place in the dead-letters topic."""

    partition: int
    offset: int
    refused_at_ms: int
    letter: DeadLetter


def letters_end(source: LogSource) -> Bounds:
    """Return how far the dead letters of a log go now."""
    topic = "dead-letters"
    return {number: source.bounds(topic, number) for number in range(source.partitions(topic))}


def read_letters(source: LogSource, bounds: Bounds, *, reason: str = "") -> Iterator[Refusal]:
    """Yield the letters within ``bounds`` whose reason has ``reason`` in it, partition by partition."""
    for number, (start, stop) in bounds.items():
        for block in source.read("dead-letters", number, start, stop):
            for record in block.records():
                letter = letter_of(record, number)
                if reason.lower() in letter.reason.lower():
                    yield Refusal(number, record.offset, record.timestamp, letter)


@dataclass(slots=True)
class ReasonCount:
    """Refusals of one kind of reason from one topic."""

    topic: str
    reason: str
    first_ms: int
    last_ms: int
    count: int = 0


class LetterCounts:
    """Letters counted by topic and kind of reason, and why those are held back that cannot be sent again."""

    def __init__(self, held_back: Callable[[DeadLetter], str | None]) -> None:
        self._held_back = held_back
        self._kinds: dict[tuple[str, str], ReasonCount] = {}
        self.resendable: Counter[str] = Counter()  # by topic
        self.held: Counter[str] = Counter()  # by why

    def add(self, refusal: Refusal) -> None:
        """Count a letter."""
        at_ms, letter = refusal.refused_at_ms, refusal.letter
        key = letter.topic, kind_of(letter.reason)
        known = self._kinds.setdefault(key, ReasonCount(*key, at_ms, at_ms))
        known.first_ms, known.last_ms = min(known.first_ms, at_ms), max(known.last_ms, at_ms)
        known.count += 1
        why = self._held_back(letter)
        if why is None:
            self.resendable[letter.topic] += 1
        else:
            self.held[why] += 1

    def reasons(self) -> list[ReasonCount]:
        """Return the kinds, the one that came last first."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.last_ms)
