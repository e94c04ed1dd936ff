"""Logs of records, wherever they lie: one record, blocks, segments, archives, and ranges of them."""

from streams.logs.archive import Archive, ArchivedLog, ArchiveError, LogWriter, Position
from streams.logs.block import LogBlock
from streams.logs.dead_letters import cut_to_fit
from streams.logs.files import replace_file
from streams.logs.ranges import Mark, Range, parse_mark, parse_time, time_text
from streams.logs.record import LogRecord, TopicPartition
from streams.logs.source import ArchiveSource, LogSource, RangeError, SourceAway

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveSource",
    "ArchivedLog",
    "LogBlock",
    "LogRecord",
    "LogSource",
    "LogWriter",
    "Mark",
    "Position",
    "Range",
    "RangeError",
    "SourceAway",
    "TopicPartition",
    "cut_to_fit",
    "parse_mark",
    "parse_time",
    "replace_file",
    "time_text",
]
