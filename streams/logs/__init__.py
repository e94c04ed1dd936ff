"""Logs of records, wherever they lie: one record, blocks, segments, archives, and ranges of them."""

from streams.logs.archive import Archive, ArchivedLog, LogWriter, Position
from streams.logs.block import LogBlock, LogRecord, TopicPartition, record_bytes
from streams.logs.dead_letters import (
    QUOTED,
    LetterCounts,
    Refusal,
    cut_to_fit,
    kind_of,
    letter_of,
    letters_end,
    not_to_resend,
    opened,
    read_letters,
)
from streams.logs.ranges import Mark, Range, parse_mark, parse_time, time_text
from streams.logs.segment import ArchiveError, replace_file
from streams.logs.source import ArchiveSource, LogSource, RangeError, SourceAway

__all__ = [
    "QUOTED",
    "Archive",
    "ArchiveError",
    "ArchiveSource",
    "ArchivedLog",
    "LetterCounts",
    "LogBlock",
    "LogRecord",
    "LogSource",
    "LogWriter",
    "Mark",
    "Position",
    "Range",
    "RangeError",
    "Refusal",
    "SourceAway",
    "TopicPartition",
    "cut_to_fit",
    "kind_of",
    "letter_of",
    "letters_end",
    "not_to_resend",
    "opened",
    "parse_mark",
    "parse_time",
    "read_letters",
    "record_bytes",
    "replace_file",
    "time_text",
]
