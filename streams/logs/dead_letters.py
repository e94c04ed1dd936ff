"""Dead letters cut to fit a record (pure)."""

from __future__ import annotations

from dataclasses import replace

from schemas.records import DeadLetter

REASON_CHARS, KEY_BYTES = 2_000, 50_000  # what else of a letter may be large, beside its value


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
