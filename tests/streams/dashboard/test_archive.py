"""Where the page's records come from when there is no broker."""

from pathlib import Path

import pytest
from shown import NOW, batch, buckets, impression, loop_of, state

from schemas.codec import encode
from streams.dashboard import archive_source
from streams.dashboard.archive_source import ArchiveFollower
from streams.dashboard.job.feed import State
from streams.logs import Archive, LogBlock, LogRecord, LogWriter, SourceAway
from streams.settings import Settings


def write(archive, topic, records):
    archive.add_topic(topic, partitions=1)
    writer = LogWriter(archive.log(topic, 0))
    for number, (at_ms, record) in enumerate(records, writer.next_offset):
        writer.append(LogBlock.of([LogRecord(number, at_ms, b"k", encode(record))]))
    writer.close()


def test_an_archive_is_read_in_the_order_of_its_time_and_followed(tmp_path: Path):
    archive = Archive(tmp_path)
    lists = [(NOW + n * 1000, batch("b00", [[1, 0, 0, 0, 0, 0]], NOW + n * 1000 - 600)) for n in range(20)]
    write(archive, "samples", lists[:10])
    write(archive, "impressions", [(NOW + n * 1000 + 1, impression(f"i{n}", "b00", NOW + n * 1000)) for n in range(10)])
    source, shown = ArchiveFollower(tmp_path), state()
    found = source.poll()
    assert not found.behind
    assert found.at_ms == NOW + 9001
    assert [len(found.entries[topic]) for topic in ("samples", "impressions")] == [10, 10]
    shown.add(found)
    assert source.poll().entries == {}
    write(archive, "samples", lists[10:])
    more = source.poll()
    shown.add(more)
    assert [entry.record.offset for entry in more.entries["samples"]] == list(range(10, 20))
    assert shown.rates.timelines["all"].values.sum(axis=0)[0].tolist() == [20, 20, 20]


def test_an_archive_larger_than_a_poll_is_not_read_ahead_of_its_other_topics(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(archive_source, "LOOK_BYTES", 1000)
    archive, made = Archive(tmp_path), loop_of(120)
    for topic, entries in made.items():  # in blocks of uneven length
        archive.add_topic(topic, partitions=1)
        writer, size = LogWriter(archive.log(topic, 0)), {"samples": 50, "clicks": 7}.get(topic, 20)
        records = [
            LogRecord(number, entry.record.timestamp, b"k", entry.record.value) for number, entry in enumerate(entries)
        ]
        for first in range(0, len(records), size):
            writer.append(LogBlock.of(records[first : first + size]))
        writer.close()
    source, last_ms = ArchiveFollower(tmp_path), 0
    shown = State(Settings(buckets=buckets(1), wait_s=60, lateness_s=60), source_name="a log", clock=lambda: 0)
    looks = []
    while not looks or looks[-1].behind:
        looks.append(source.poll())
        times = [entry.record.timestamp for entries in looks[-1].entries.values() for entry in entries]
        assert min(times, default=last_ms) >= last_ms
        last_ms = max(times, default=last_ms)
        shown.add(looks[-1])
    assert len(looks) > 5
    assert [len([entry for one in looks for entry in one.entries.get(topic, [])]) for topic in made] == [
        len(entries) for entries in made.values()
    ]
    assert shown.loop.rows["b00"][6] > 50


def test_a_directory_without_an_archive_is_away(tmp_path: Path):
    with pytest.raises(SourceAway, match="no archive"):
        ArchiveFollower(tmp_path).poll()
