"""Impressions and clicks: made from arrays or JSON, and the rules that they must keep."""

from streams.events.acceptance import Acceptance, Limits, short
from streams.events.events import Event, click_of, impression_of, read_events
from streams.events.sizes import LIST_BYTES, MAX_ID_BYTES, MAX_RECORD_BYTES, RECORD_BYTES, list_bytes

__all__ = [
    "LIST_BYTES",
    "MAX_ID_BYTES",
    "MAX_RECORD_BYTES",
    "RECORD_BYTES",
    "Acceptance",
    "Event",
    "Limits",
    "click_of",
    "impression_of",
    "list_bytes",
    "read_events",
    "short",
]
