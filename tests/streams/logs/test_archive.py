"""An archive gives back what was put in, survives crashes, and says precisely what is wrong with it."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import fastavro
import pytest

from streams.logs import Archive, ArchivedLog, ArchiveError, LogBlock, LogRecord, LogWriter
from streams.logs import archive as archive_module
from streams.logs.archive import ArchiveCorrupt
from streams.logs.block import SCHEMA
from streams.logs.segment import CODECS, MAX_BLOCK_BYTES, CodecError, Segment, codec_named, default_codec


def records(start: int, count: int) -> list[LogRecord]:
    """Records with a gap at each tenth offset, as markers leave; some without key or value."""
    offsets = [start + n + n // 10 for n in range(count)]
    return [
        LogRecord(o, 1_000_000 + o, None if o % 7 == 0 else b"k%d" % o, None if o % 5 == 0 else b"value %d" % o)
        for o in offsets
    ]


@pytest.fixture
def log(tmp_path) -> ArchivedLog:
    archive = Archive(tmp_path)
    archive.add_topic("clicks", partitions=2, topic_id="id")
    return archive.log("clicks", 1)


def write(log: ArchivedLog, blocks: int = 3, size: int = 30, codec: str = "deflate") -> list[LogRecord]:
    writer, everything = LogWriter(log, codec=codec), []
    for _ in range(blocks):
        part = records(writer.next_offset, size)
        writer.append(LogBlock.of(part))
        everything += part
    writer.close()
    return everything


def read(log: ArchivedLog, *bounds: int) -> list[LogRecord]:
    return [record for block in log.read(*bounds) for record in block.records()]


INSTALLED = ["deflate", "null"] if default_codec() == "deflate" else list(CODECS)


@pytest.mark.parametrize("codec", INSTALLED)
def test_what_was_written_is_read_again(log, codec):
    wanted = write(log, codec=codec)
    assert read(log) == wanted
    assert (log.start, log.end) == (0, wanted[-1].offset + 1)
    with log.segments()[0].open("rb") as file:
        reader = fastavro.reader(file)  # any Avro library reads it
        assert reader.metadata["avro.codec"] == codec
        assert reader.metadata["glimpse.partition"] == "1"
        rows = list(reader)
    assert b"".join(row["values"] for row in rows) == b"".join(record.value or b"" for record in wanted)


def test_every_range_is_cut_exactly(log, monkeypatch):
    monkeypatch.setattr(archive_module, "SEGMENT_BYTES", 300)
    wanted = write(log, blocks=6, size=7)
    assert len(log.segments()) > 2
    end = wanted[-1].offset + 1
    for start in range(0, end + 1, 3):
        for stop in range(0, end + 2, 2):
            assert read(log, start, stop) == [r for r in wanted if start <= r.offset < stop]


def test_a_kill_at_any_byte_costs_the_last_block_at_most(log, caplog):
    wanted = write(log, blocks=2, size=3)
    [path] = log.segments()
    whole = path.read_bytes()
    ends = [end for _, end in Segment(path).blocks()]
    for size in range(Segment(path).header.end, len(whole)):
        path.write_bytes(whole[:size])
        caplog.clear()
        kept = sum(end <= size for end in ends)
        assert read(log) == wanted[: 3 * kept]
        assert ("torn" in caplog.text) == (size not in (Segment(path).header.end, *ends))
        writer = LogWriter(log)
        writer.append(LogBlock.of(records(writer.next_offset, 2)))
        writer.close()
        assert read(log) == wanted[: 3 * kept] + records(wanted[3 * kept - 1].offset + 1 if kept else 0, 2)


def test_a_last_block_of_zeros_is_torn_too(log):
    wanted = write(log, blocks=3, size=3)
    [path] = log.segments()
    data, [*_, before, end] = path.read_bytes(), [at for _, at in Segment(path).blocks()]
    path.write_bytes(data[:before] + bytes(end - before))
    assert read(log) == wanted[:6]


def test_one_flipped_byte_in_the_middle_is_found_and_named(log):
    write(log, blocks=3, size=4, codec="null")
    [path] = log.segments()
    data = path.read_bytes()
    first, second, _ = [at for _, at in Segment(path).blocks()]
    for at in range(first, second):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        blocks = log.read()
        assert next(blocks).next_offset == 4
        with pytest.raises(ArchiveCorrupt, match=rf"damaged at byte {first}: .* last good offset before it: 3"):
            next(blocks)


def test_a_missing_file_in_the_middle_is_found(log, monkeypatch):
    monkeypatch.setattr(archive_module, "SEGMENT_BYTES", 300)
    write(log, blocks=6, size=7)
    log.segments()[1].unlink()
    with pytest.raises(ArchiveCorrupt, match="a file is missing"):
        read(log)


def test_going_on_from_a_position_drops_what_came_after(log):
    writer = LogWriter(log)
    writer.append(LogBlock.of(records(0, 5)))
    at = writer.position
    writer.append(LogBlock.of(records(5, 5)))
    writer.close()
    again = LogWriter(log, at=at)
    assert again.position == at
    again.append(LogBlock.of(records(7, 2)))
    assert read(log) == records(0, 5) + records(7, 2)
    with pytest.raises(ArchiveCorrupt, match="shorter than"):
        LogWriter(log, at=at._replace(size=1 << 30))


def test_offsets_must_go_on(log):
    writer = LogWriter(log)
    writer.append(LogBlock.of(records(0, 5)))
    with pytest.raises(ArchiveError, match="goes on at offset 5"):
        writer.append(LogBlock.of(records(4, 1)))


WRONG = {
    "nothing there": (lambda path: path.rmdir(), "there is no such directory"),
    "an empty directory": (lambda path: None, "it holds nothing"),
    "other files": (lambda path: (path / "notes.txt").write_text("x"), "it holds notes.txt"),
    "a file": (lambda path: (path.rmdir(), path.write_text("x")), "it is a file"),
}


@pytest.mark.parametrize("make, said", WRONG.values(), ids=WRONG)
def test_what_is_no_archive_is_refused(tmp_path, make, said):
    path = tmp_path / "a"
    path.mkdir()
    make(path)
    with pytest.raises(ArchiveError, match=f"is no archive.*{said}.*glimpse archive"):
        Archive.open(path)


def test_files_that_are_not_ours_are_refused_by_what_they_are(log):
    path = log.path / f"{0:020}.avro"
    path.write_bytes(b"PAR1....")
    with pytest.raises(ArchiveError, match="no Avro container file: it begins with 50415231"):
        read(log)
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Payment", "fields": []}, [{}])
    with pytest.raises(ArchiveError, match=r"holds 'Payment' records of another schema; wanted glimpse.LogBlock"):
        read(log)
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, [], codec="bzip2")
    with pytest.raises(ArchiveError, match="unknown codec 'bzip2'"):
        read(log)
    (log.path.parent / "topic.json").write_text(json.dumps({"topic": "clicks"}))
    with pytest.raises(ArchiveError, match=r"topic\.json cannot be read"):
        Archive(log.path.parent.parent).log("clicks", 0)


def test_another_topic_of_the_same_name_is_not_mixed_in(tmp_path):
    archive = Archive(tmp_path)
    archive.add_topic("clicks", partitions=2, topic_id="a")
    archive.add_topic("clicks", partitions=2, topic_id="a")
    with pytest.raises(ArchiveError, match="of id a with 2 partitions, not 'clicks' of id b with 2"):
        archive.add_topic("clicks", partitions=2, topic_id="b")
    with pytest.raises(ArchiveError, match="has no topic 'samples'; its topics: clicks"):
        archive.log("samples", 0)
    with pytest.raises(ArchiveError, match="partitions 0 to 1, not 2"):
        archive.log("clicks", 2)


def test_a_second_writer_is_kept_out(tmp_path):
    one, other = Archive(tmp_path), Archive(tmp_path)
    with one.writing(), pytest.raises(ArchiveError, match="another process writes"), other.writing():
        pass


def test_a_bomb_is_refused_before_it_takes_memory():
    bomb = codec_named("deflate").press(bytes(MAX_BLOCK_BYTES + 1))
    with pytest.raises(CodecError, match="more than"):
        codec_named("deflate").expand(bomb)


WRITER = """
import sys
from streams.logs.archive import Archive, LogWriter
from streams.logs.block import LogBlock
from streams.logs.block import LogRecord
writer = LogWriter(Archive(sys.argv[1]).log("clicks", 1))
print("ready", flush=True)
while True:
    n = writer.next_offset
    writer.append(LogBlock.of([LogRecord(n + i, n + i, b"k", b"%d" % (n + i) * 500) for i in range(50)]))
"""


def test_killed_writers_leave_a_log_without_holes(log):
    choose, before = random.Random(1), 0
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(log.path.parent.parent)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."}) as process:
            process.stdout.readline()
            time.sleep(choose.uniform(0.01, 0.1))
            process.send_signal(signal.SIGKILL)
        found = read(log)
        assert [record.offset for record in found] == list(range(len(found)))
        assert all(record.value == b"%d" % record.offset * 500 for record in found)
        assert len(found) >= before
        before = len(found)
    assert before > 0


FULL = """
import resource, sys
from streams.logs import archive
from streams.logs.archive import Archive, LogWriter
from streams.logs.block import LogBlock
from streams.logs.block import LogRecord

def append(writer):
    start = writer.next_offset
    writer.append(LogBlock.of([LogRecord(start + i, 0, b"k", b"%d" % (start + i) * 50) for i in range(20)]))

def failing(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    before = writer.next_offset, writer.position
    try:
        for _ in range(1000):
            before = writer.next_offset, writer.position
            append(writer)
    except OSError as error:
        print(error.strerror)
    assert (writer.next_offset, writer.position) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

writer = LogWriter(Archive(sys.argv[1]).log("clicks", 1), codec="null")
failing(50_001)
append(writer)
failing(70_001)
archive.SEGMENT_BYTES = 60_000
failing(10)  # not even the head of a new file
append(writer)
append(writer)
failing(writer.position.size + 1_000)
print(writer.next_offset)
"""


def test_a_full_disk_costs_only_the_append_that_failed(log):
    command = [sys.executable, "-c", FULL, str(log.path.parent.parent)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."}, check=False)
    assert done.returncode == 0, done.stderr
    *errors, end = done.stdout.split("\n")[:-1]
    assert errors == ["File too large"] * 4
    assert len(log.segments()) == 2
    found = read(log)
    assert [record.offset for record in found] == list(range(int(end)))
    assert all(record.value == b"%d" % record.offset * 50 for record in found)
    assert LogWriter(log).next_offset == log.end == int(end)
