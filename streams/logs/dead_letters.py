"""Dead letters: cut to fit a record, read back, counted, shown to people, and which may be sent again (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import Click, DeadLetter, Impression
from streams.events import EventReader
from streams.logs.block import LogRecord
from streams.logs.source import LogSource
from streams.settings import EVENTS

REASON_CHARS, KEY_BYTES = 2_000, 50_000  # what else of a letter may be large, beside its value
SHOWN_BYTES, SHOWN_NUMBERS = 4096, 60
_CUT = re.compile(r" \(the first \d+ of \d+ bytes of its (key|value)\)")
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""  # in a reason; \' is no end
_VARIES = re.compile(QUOTED + r"|[-+±]?\b\d[\d.,e+-]*\b|\b[0-9a-f]{12,}\b")

Bounds = dict[int, tuple[int, int]]  # partition -> first offset, end


def cut_to_fit(letter: DeadLetter, *, max_bytes: int = 900_000) -> DeadLetter:
    """Return a dead letter that fits a record: key, bytes and reason are cut where too large, and the reason says so.

    A reason quotes what was wrong, which may be all of a large record.
    """
    reason, key, value = letter.reason, letter.key, letter.value
    if len(reason) <= REASON_CHARS and len(key or b"") <= KEY_BYTES and len(value or b"") <= max_bytes:
        return letter
    if len(reason) > REASON_CHARS:
        reason = f"{reason[: REASON_CHARS // 2]} … {reason[-REASON_CHARS // 2 :]}"
    for name, part, most in (("key", key, KEY_BYTES), ("value", value, max_bytes)):
        if part is not None and len(part) > most:
            reason += f" (the first {most} of {len(part)} bytes of its {name})"
    return replace(letter, key=key and key[:KEY_BYTES], value=value and value[:max_bytes], reason=reason)


def letter_of(record: LogRecord, partition: int) -> DeadLetter:
    """Return a record of the dead-letters topic; what is none itself becomes one with its own reason."""
    try:
        letter: DeadLetter = decode(record.value or b"", DeadLetter, max_bytes=4 * MAX_BYTES)
    except SchemaError as error:
        reason = f"not a dead letter: {error}"
        return DeadLetter("dead-letters", partition, record.offset, record.timestamp, record.key, record.value, reason)
    return letter


def kind_of(reason: str) -> str:
    """Return a reason without what varies from record to record.

    >>> kind_of("position 14 is beyond the list of 12; check the producer's K")
    "position … is beyond the list of …; check the producer's K"
    >>> kind_of("unknown bucket 'x'; configured are a, b")
    'unknown bucket …; configured are a, b'
    >>> kind_of(r"impression 'web:o\\'b' has other content")
    'impression … has other content'
    """
    return _VARIES.sub("…", reason)


def not_to_resend(
    letter: DeadLetter, reader: EventReader, *, topic_prefix: str, passed_before_ms: int | None = None
) -> str | None:
    """Return why sending a letter's record to its topic again would be of no use or do harm, or None.

    Events may be sent again: the join counts an impression or a click once, however often it comes. The horizon of what
    happened before ``passed_before_ms`` has passed; None where only the log's own clock tells.
    """
    topic = letter.topic.removeprefix(topic_prefix) if letter.topic.startswith(topic_prefix) else ""
    if topic == "samples":
        return "of samples, which still hold it: a new epoch of its bucket learns it, sent again it would count twice"
    if topic not in EVENTS:
        return "of neither impressions nor clicks of this deployment"
    if _CUT.search(letter.reason):
        return "cut, as it was too large"
    kind: type[Impression | Click] = Impression if topic == "impressions" else Click
    event = reader.event_or_none(letter.value, kind)
    if event is None:
        return "unreadable, so it would be refused again"
    if passed_before_ms is not None and event.at_ms < passed_before_ms:
        return "too old: its horizon has passed, so it would be refused again"
    return None


class Refusal(NamedTuple):
    """A dead letter with its place in the dead-letters topic."""

    partition: int
    offset: int
    refused_at_ms: int
    letter: DeadLetter


def letters_end(source: LogSource) -> Bounds:
    """Return how far the dead letters of a log go now."""
    return {number: source.bounds("dead-letters", number) for number in range(source.partitions("dead-letters"))}


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
        (self.resendable if why is None else self.held)[why or letter.topic] += 1

    def reasons(self) -> list[ReasonCount]:
        """Return the kinds, the one that came last first."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.last_ms)


def opened(letter: DeadLetter, reader: EventReader) -> dict[str, Any]:
    """Return a letter for people: where its record was, why it was refused, its bytes, and what they decode to."""
    value = letter.value
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        "reason": letter.reason,
        "key": None if letter.key is None else letter.key[:256].decode("utf-8", "backslashreplace"),
        "bytes": None if value is None else len(value),
        "hex": (value or b"")[:SHOWN_BYTES].hex(),
        "decoded": decoded(value, reader),
    }


def decoded(value: bytes | None, reader: EventReader) -> dict[str, Any]:
    """Return the record in ``value`` field by field, or why there is none."""
    if value is None:
        return {"error": "the record has no value (a tombstone)"}
    try:
        record = reader.event(value, max_bytes=4 * MAX_BYTES)
    except SchemaError as error:
        return {"error": str(error)}
    kind = type(record)
    return {"kind": kind.__name__, "fields": {name: shown(record, name) for name in kind.__annotations__}}


def shown(record: Any, name: str) -> Any:
    """Return a field as JSON can hold it: packed columns as numbers, cut when they are many."""
    value = getattr(record, name)
    if name == "contexts" and isinstance(value, bytes):
        value = np.frombuffer(value, "<f4")
    elif isinstance(value, bytes) and hasattr(record, f"{name}_array"):
        value = getattr(record, f"{name}_array")
    if isinstance(value, bytes):
        return value[:SHOWN_BYTES].hex()
    if isinstance(value, np.ndarray | list):
        numbers = value.tolist() if isinstance(value, np.ndarray) else [str(part) for part in value]
        cut = [round(number, 6) if isinstance(number, float) else number for number in numbers[:SHOWN_NUMBERS]]
        return {"length": len(numbers), "first": [_finite(number) for number in cut]}
    return _finite(value)


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
