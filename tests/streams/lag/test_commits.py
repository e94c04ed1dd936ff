"""Records of __consumer_offsets: every version of them, and hostile bytes."""

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.join import Commit
from streams.join.commit import LogPart
from streams.join.commit import LogPosition as LogPlace
from streams.lag.commit_records import (
    Committed,
    CommittedPosition,
    GroupPartition,
    committed_of,
    group_partition_of,
    position_of,
)
from streams.lag.job.commit_history import Clocks
from streams.settings import LogPair


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


TOPIC = uuid.UUID(int=7)
VALUES = {
    "version 0": struct.pack(">hq", 0, 42) + text("hi") + struct.pack(">q", 1000),
    "version 1, with an expiry": struct.pack(">hq", 1, 42) + text("hi") + struct.pack(">qq", 1000, 2000),
    "version 2": struct.pack(">hq", 2, 42) + text("hi") + struct.pack(">q", 1000),
    "version 3, with a leader epoch": struct.pack(">hqi", 3, 42, 5) + text("hi") + struct.pack(">q", 1000),
    "version 4, compact": struct.pack(">hqi", 4, 42, 5) + b"\x03hi" + struct.pack(">q", 1000) + b"\x00",
    "version 4, with other tags": struct.pack(">hqi", 4, 42, 5)
    + b"\x03hi"
    + struct.pack(">q", 1000)
    + b"\x02\x05\x01z\x00\x10"
    + TOPIC.bytes,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_every_version_of_a_commit_is_read(value):
    found = committed_of(value)
    assert found[:3] == (42, "hi", 1000)
    assert found.topic_id in ("", str(TOPIC))
    for size in range(len(value) - 9):
        assert committed_of(value[:size]) is None


def test_the_topic_id_is_found_among_tags():
    assert committed_of(VALUES["version 4, with other tags"]).topic_id == str(TOPIC)


def test_keys_of_other_kinds_are_passed_over():
    key = struct.pack(">h", 1) + text("group") + text("topic") + struct.pack(">i", 3)
    assert group_partition_of(key) == GroupPartition("group", "topic", 3)
    assert group_partition_of(struct.pack(">h", 2) + text("group")) is None
    assert group_partition_of(None) is None
    assert committed_of(struct.pack(">hq", 9, 1)) is None


@given(st.binary(max_size=60), st.integers(0, 4))
def test_hostile_bytes_are_no_commit_and_no_crash(data, version):
    group_partition_of(data)
    group_partition_of(struct.pack(">h", version) + data)
    committed_of(data)
    committed_of(struct.pack(">h", version) + data)


def test_the_joins_notes_tell_where_it_is():
    part = LogPart(LogPlace(3, 5000, 0), 9, 0, [])
    (offset, metadata), _ = Commit(part, LogPart.beginning(0)).encode(LogPair("id", ""))
    assert position_of(Committed(offset, metadata), join=True) == CommittedPosition(9, "id", 5000)
    assert position_of(Committed(offset, metadata), join=False) == CommittedPosition(3)


GARBAGE = ["", "{", "[]", '{"to": "x"}', '{"to": 4}', "null", '{"to": null, "clock": 1, "topic": ""}', "\x00" * 30]
GARBAGE += ['{"to": -5, "clock": 1, "topic": ""}', '{"to": 9, "topic": "", "clock": 1%s}' % ("0" * 400)]
GARBAGE += ['{"to": 6, "clock": 1, "topic": ""}', '{"to": 1%s, "clock": 1, "topic": ""}' % ("0" * 400)]
GARBAGE += ['{"to": Infinity, "clock": 1, "topic": ""}', "[" * 4096, '{"to": 1e999, "clock": 0, "topic": 0}']


@pytest.mark.parametrize("metadata", GARBAGE)
def test_other_notes_are_said_and_the_offset_stands(metadata):
    found = position_of(Committed(7, metadata, 1000, "id"), join=True)
    assert found[:2] == (7, "id")
    assert "not the join's notes" in found.problem
    assert "\n" not in found.problem


def test_a_clock_is_behind_only_when_commits_keep_saying_so():
    clocks = Clocks()
    clocks.note(90_000, now_ms=100_000)
    clocks.note(95_000, now_ms=102_000)  # a transaction that took its time
    clocks.note(103_900, now_ms=104_000)
    assert clocks.ahead_ms == 0
    for second in range(6, 18, 2):
        clocks.note(100_000 + second * 1000 - 60_000, now_ms=100_000 + second * 1000)
    assert -60_000 <= clocks.ahead_ms <= -55_000
    assert clocks.words.startswith("the broker's clock is 58 s behind this machine's")
    clocks.note(0, now_ms=200_000)
    assert clocks.ahead_ms < 0  # no news, no change
    clocks.note(199_000, now_ms=202_000)
    assert clocks.ahead_ms == 0
