"""Impressions and clicks: made from arrays or JSON, and the rules that they must keep."""

from streams.events.acceptance import (
    CANDIDATES_BYTES,
    LIST_BYTES,
    MAX_ID_BYTES,
    MAX_RECORD_BYTES,
    MAX_VERSION_BYTES,
    RECORD_BYTES,
    Acceptance,
    Limits,
    list_bytes,
    short,
)
from streams.events.events import Event, click_of, event_of, impression_of, read_events, user_hash
from streams.events.metarank import MetarankEvents

__all__ = [
    "CANDIDATES_BYTES",
    "LIST_BYTES",
    "MAX_ID_BYTES",
    "MAX_RECORD_BYTES",
    "MAX_VERSION_BYTES",
    "RECORD_BYTES",
    "Acceptance",
    "Event",
    "Limits",
    "MetarankEvents",
    "click_of",
    "event_of",
    "impression_of",
    "list_bytes",
    "read_events",
    "short",
    "user_hash",
]
