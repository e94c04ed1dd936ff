"""fit and evaluate on what Glimpse itself logged: the same lists from every place, and the same table bit for bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sample_batches import make_batch
from typer.testing import CliRunner

from schemas.codec import encode
from streams.commands.main import cli
from streams.embedded.job import Embedded
from streams.events import click_of, impression_of
from streams.logs import Archive, ArchiveSource, LogBlock, LogRecord, LogWriter
from streams.logs.job import KafkaSource, copy, restore
from streams.offline import ListChoice, read_logs, read_own_logs
from streams.offline.logs import LogError
from streams.settings import Bucket, Settings

K, LISTS, STEP_MS = 4, 240, 1_000
BUCKETS = {name: Bucket(name, "c2ucb", dim=2, positions=K) for name in ("a", "b")}
RULES = {"buckets": BUCKETS, "wait_s": 30.0, "lateness_s": 600.0, "partitions": 1}
END_MS = (LISTS + 1) * STEP_MS  # of the lists that are asked for


def day(folder):
    """Run the embedded loop on lists, late clicks and what comes after them; return the lists as they ended up."""
    random = np.random.default_rng(5)
    ended, later = [], {}
    with Embedded(folder, Settings(**RULES)) as loop:
        for number in range(LISTS):
            at_ms, ids = (number + 1) * STEP_MS, {"impression_id": f"i{number}", "session_id": f"s{number % 40}"}
            items = random.choice(20, K, replace=False).tolist()
            rendered = int(random.integers(2, K + 1))
            bucket = "ab"[number % 2]
            contexts = random.uniform(-0.5, 0.5, (K, 2)).astype(np.float32)
            shown = impression_of(
                items, contexts, bucket=bucket, user_id="u", shown_at_ms=at_ms, rendered=rendered, **ids
            )
            loop.append([shown], at_ms=at_ms)
            clicked = np.flatnonzero(random.random(rendered) < 0.4)
            for row in clicked.tolist():
                late_ms = 200_000 if row % 2 else 10  # some after the list has closed, so that it is corrected
                click = click_of(position=row + 1, clicked_at_ms=at_ms + 5, **ids)
                ended_at = at_ms + late_ms
                later.setdefault(ended_at, []).append(click)
            for due in sorted(time for time in later if time <= at_ms):
                loop.append(later.pop(due), at_ms=at_ms)
            loop.step(now_ms=at_ms)
            rewards = np.isin(np.arange(rendered), clicked).astype(float)
            ended.append({"items": items[:rendered], "clicks": rewards.tolist(), "bucket": bucket})
        at_ms = END_MS + 300_000
        loop.append([click for clicks in later.values() for click in clicks], at_ms=at_ms)
        for number in range(3):  # what moves the clocks of both logs past the horizon of all that is asked for
            ids = {"impression_id": f"z{number}", "session_id": f"z{number}"}
            shown = impression_of([1], [[0.1, 0.1]], bucket="a", user_id="u", shown_at_ms=at_ms + 900_000, **ids)
            loop.append([shown, click_of(position=1, clicked_at_ms=at_ms + 900_000, **ids)], at_ms=at_ms + 900_000)
        loop.step(now_ms=at_ms + 900_000)
    return ended


def write_lines(file, lists):
    file.write_text("".join(json.dumps({name: one[name] for name in ("items", "clicks")}) + "\n" for one in lists))
    return file


def same(found, wanted, names=("items", "item_ids", "clicks", "sizes")):
    for name in names:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return folder / "loop", day(folder / "loop")


@pytest.mark.parametrize("events", [False, True], ids=["samples", "events"])
def test_an_embedded_directory_gives_the_lists_as_they_ended_up(logged, tmp_path, events):
    loop, lists = logged
    source, settings = ArchiveSource(Archive.open(loop)), Settings(**RULES)
    found, notes = read_own_logs(source, settings, ListChoice(events=events, to_ms=END_MS))
    same(found, read_logs(write_lines(tmp_path / "all.jsonl", lists)))
    assert found.contexts.shape == (LISTS, K, 2)
    assert notes == ["lists of a, b are taken together; --bucket takes those of one"]
    some, _ = read_own_logs(
        source, settings, ListChoice(events=events, buckets=("b",), from_ms=101 * STEP_MS, to_ms=END_MS)
    )
    same(some, read_logs(write_lines(tmp_path / "b.jsonl", [one for one in lists[100:] if one["bucket"] == "b"])))


def test_every_place_gives_the_same_table_bit_for_bit(logged, settings_for, tmp_path, monkeypatch):
    loop, lists = logged
    settings = settings_for(**RULES)
    restore(settings, Archive.open(loop), topics=("impressions", "clicks", "samples"))
    copy(settings, Archive(tmp_path / "archive"), topics=("impressions", "clicks", "samples"))
    file = write_lines(tmp_path / "lists.jsonl", lists)
    source, choice = KafkaSource(settings), ListChoice(to_ms=END_MS)
    for place in (source, ArchiveSource(Archive.open(tmp_path / "archive"))):
        for events in (False, True):
            same(read_own_logs(place, settings, replace(choice, events=events))[0], read_logs(file))
    source.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLIMPSE_KAFKA", settings.kafka)
    monkeypatch.setenv("GLIMPSE_TOPIC_PREFIX", settings.topic_prefix)
    until = ["--to", f"1970-01-01T00:{END_MS // 60_000:02}:{END_MS // 1000 % 60:02}"]
    tables = []
    for words in ([str(file)], ["kafka", *until], [str(loop), *until], ["archive", *until]):
        done = CliRunner().invoke(cli, ["fit", *words, "--out", "table.json"])
        assert done.exit_code == 0, done.exception
        tables.append((tmp_path / "table.json").read_bytes())
    assert tables == [tables[0]] * 4


def samples_log(folder, batches, *, first_offset=0):
    archive = Archive(folder)
    archive.add_topic("samples", partitions=1)
    writer = LogWriter(archive.log("samples", 0), start=first_offset)
    records = [LogRecord(first_offset + number, 0, b"a", encode(batch)) for number, batch in enumerate(batches)]
    writer.append(LogBlock.of(records))
    writer.close()
    return ArchiveSource(archive)


def test_a_log_without_its_beginning_is_said(tmp_path):
    batch, _ = make_batch("a", 6, seed=1)
    there = replace(batch, signs=np.ones(6, np.int8).tobytes())
    gone, _ = make_batch("a", 2, seed=2)
    gone = replace(gone, impression_ids=["x", "y"], signs=np.full(2, -1, np.int8).tobytes())
    taken = replace(there, signs=np.full(6, -1, np.int8).tobytes())
    source = samples_log(tmp_path / "log", [there, gone], first_offset=7)
    logs, notes = read_own_logs(source, Settings(), ListChoice())
    assert len(logs) == 6
    assert notes == [
        f"samples 0 on {source.where()} begins at offset 7: what was before is gone, or was not archived",
        "2 lists were taken back or corrected that the log does not hold",
    ]
    with pytest.raises(LogError, match="no lists in samples"):
        read_own_logs(samples_log(tmp_path / "taken", [there, taken]), Settings(), ListChoice())
    with pytest.raises(LogError, match="has no impressions"):
        read_own_logs(source, Settings(buckets=BUCKETS), ListChoice(events=True))


def test_options_of_own_logs_are_refused_for_a_file(tmp_path):
    file = write_lines(tmp_path / "lists.jsonl", [{"items": [1], "clicks": [0]}])
    done = CliRunner().invoke(cli, ["fit", str(file), "--bucket", "a"])
    assert "a file has all its lists" in str(done.exception)
