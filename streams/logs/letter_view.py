"""Dead letters as people and JSON read them: where a record was, why it was refused, and what its bytes say."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from schemas.codec import MAX_BYTES, SchemaError, decode
from schemas.records import DeadLetter

SHOWN_BYTES, SHOWN_NUMBERS = 4096, 60


def opened(letter: DeadLetter) -> dict[str, Any]:
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
        "decoded": decoded(value),
    }


def decoded(value: bytes | None) -> dict[str, Any]:
    """Return the record in ``value`` field by field, or why there is none."""
    if value is None:
        return {"error": "the record has no value (a tombstone)"}
    try:
        record = decode(value, max_bytes=4 * MAX_BYTES)
    except SchemaError as error:
        return {"error": str(error)}
    names = [part.name for part in fields(record)]
    return {"kind": type(record).__name__, "fields": {name: shown(record, name) for name in names}}


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
        return {"length": len(numbers), "first": [str(n) if n != n or n in (_INF, -_INF) else n for n in cut]}
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return value


_INF = float("inf")
