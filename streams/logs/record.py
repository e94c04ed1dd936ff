"""One record of a log."""

from __future__ import annotations

from typing import NamedTuple


class LogRecord(NamedTuple):
    """One record as a log keeps it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
