"""Impressions and clicks: one reader of their bytes, one table of rules, and events made from arrays or JSON."""

from streams.events.acceptance import (
    CANDIDATES_BYTES,
    LIST_BYTES,
    MAX_ID_BYTES,
    MAX_RECORD_BYTES,
    RECORD_BYTES,
    Acceptance,
    Limits,
    list_bytes,
    short,
)
from streams.events.delays import ShownList, first_click_delay_ms
from streams.events.events import Event, click_of, event_of, impression_of, read_events, user_hash
from streams.events.metarank import MetarankEvents
from streams.events.reader import EventReader, ReadBatch, codec_of
from streams.events.rules import OfferedClicks, judge_clicks, judge_events, judge_impressions, judge_offers

__all__ = [
    "CANDIDATES_BYTES",
    "LIST_BYTES",
    "MAX_ID_BYTES",
    "MAX_RECORD_BYTES",
    "RECORD_BYTES",
    "Acceptance",
    "Event",
    "EventReader",
    "Limits",
    "MetarankEvents",
    "OfferedClicks",
    "ReadBatch",
    "ShownList",
    "click_of",
    "codec_of",
    "event_of",
    "first_click_delay_ms",
    "impression_of",
    "judge_clicks",
    "judge_events",
    "judge_impressions",
    "judge_offers",
    "list_bytes",
    "read_events",
    "short",
    "user_hash",
]
