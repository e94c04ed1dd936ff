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
        move_clocks(loop, at_ms + 900_000)
    return ended


def move_clocks(loop, at_ms, dim=2):
    """Let three sessions write to both logs, so that their clocks pass the horizon of all that is asked for."""
    for number in range(3):
        ids = {"impression_id": f"z{number}-{at_ms}", "session_id": f"z{number}"}
        shown = impression_of([1], np.full((1, dim), 0.1), bucket="a", user_id="u", shown_at_ms=at_ms, **ids)
        loop.append([shown, click_of(position=1, clicked_at_ms=at_ms, **ids)], at_ms=at_ms)
    loop.step(now_ms=at_ms)


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
    assert notes == ["lists of a, b are taken together; take those of one by its name"]
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


def test_a_log_without_its_beginning_is_taken_only_when_told(tmp_path):
    batch, _ = make_batch("a", 6, seed=1)
    there = replace(batch, signs=np.ones(6, np.int8).tobytes())
    gone, _ = make_batch("a", 2, seed=2)
    gone = replace(gone, impression_ids=["x", "y"], signs=np.full(2, -1, np.int8).tobytes())
    taken = replace(there, signs=np.full(6, -1, np.int8).tobytes())
    source = samples_log(tmp_path / "log", [there, gone], first_offset=7)
    with pytest.raises(LogError, match=r"begins at offset 7: .*; --truncated takes what is left"):
        read_own_logs(source, Settings(), ListChoice())
    logs, notes = read_own_logs(source, Settings(), ListChoice(truncated=True))
    assert len(logs) == 6
    assert logs.place(2) == f"list 'i2' on {source.where()}"
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


def test_events_are_judged_by_the_rules_of_their_time(tmp_path):
    """A bucket that had longer lists then: what was accepted stays, and what is refused today was judged otherwise."""
    rules = {name: value for name, value in RULES.items() if name != "buckets"}
    first, second = (
        Settings(**rules, buckets={"a": Bucket("a", "c2ucb", dim=1, positions=size, epoch=epoch)})
        for epoch, size in ((1, 4), (2, 2))
    )
    for settings, number in ((first, 0), (second, 1)):
        with Embedded(tmp_path / "loop", settings) as loop:
            at_ms = (1 + number) * 2_000_000
            for size in (2, 4):
                ids = {"impression_id": f"i{number}-{size}", "session_id": f"s{size}"}
                shown = impression_of(
                    range(size), np.zeros((size, 1)), bucket="a", user_id="", shown_at_ms=at_ms, **ids
                )
                loop.append([shown], at_ms=at_ms)
            move_clocks(loop, at_ms + 900_000, dim=1)
    source = ArchiveSource(Archive.open(tmp_path / "loop"))
    names = {}
    for events in (False, True):
        found, notes = read_own_logs(source, second, ListChoice(events=events, to_ms=4_100_000))
        names[events] = found.names
        assert not any("other rules" in note for note in notes)
    assert names[True] == names[False]
    assert {"i0-4", "i1-2"} <= set(names[True])
    assert "i1-4" not in names[True]


@pytest.mark.parametrize("registry", [{}, {7: "impressions", 8: "clicks"}], ids=["plain", "Confluent"])
def test_candidates_come_from_the_impressions_of_the_lists(tmp_path, registry):
    random, shown = np.random.default_rng(3), []
    settings = Settings(**RULES, registry=registry)
    with Embedded(tmp_path / "loop", settings) as loop:
        for number in range(6):
            vectors = random.uniform(-0.5, 0.5, (9, 2)).astype(np.float32)
            more = {"candidate_items": np.arange(9) + number, "candidate_contexts": vectors} if number else {}
            drawn = {"propensities": [0.5, 0.25]} if number != 3 else {}
            ids = {"impression_id": f"i{number}", "session_id": f"s{number}", "bucket": "a", "user_id": "u"}
            at_ms = 1000 * (number + 1)
            shown.append(impression_of([number, number + 1], vectors[:2], shown_at_ms=at_ms, **ids, **more, **drawn))
            loop.append([shown[-1]], at_ms=at_ms)
        move_clocks(loop, 1_000_000)
    source = ArchiveSource(Archive.open(tmp_path / "loop"))
    for events in (False, True):
        plain, _ = read_own_logs(source, settings, ListChoice(events=events, to_ms=9000))
        assert plain.candidates is None
        assert plain.propensities is None, "one list was not drawn"
        found, notes = read_own_logs(source, settings, ListChoice(events=events, to_ms=9000, candidates=True))
        assert found.names == [f"i{number}" for number in range(1, 6)]
        assert notes == [
            "1 of 6 lists do not say what they were chosen from with its contexts, or their impressions are gone: they "
            "are left out"
        ]
        for row, event in enumerate(shown[1:]):
            part = found.candidates.row(row)
            ids = [found.item_ids[item] for item in found.candidates.items[part]]
            assert ids == event.candidate_items_array.tolist()
            np.testing.assert_array_equal(found.candidates.contexts[part], event.candidate_contexts_array)
            assert [found.item_ids[item] for item in found.items[row]] == event.items_array.tolist()


def test_the_newest_lists_are_those_that_were_shown_last(logged):
    loop, _ = logged
    source = ArchiveSource(Archive.open(loop))
    every, _ = read_own_logs(source, Settings(**RULES), ListChoice(to_ms=END_MS))
    some, _ = read_own_logs(source, Settings(**RULES), ListChoice(to_ms=END_MS, newest=20))
    assert some.names == every.names[-20:]
    assert [[some.item_ids[item] for item in row if item >= 0] for row in some.items] == [
        [every.item_ids[item] for item in row if item >= 0] for row in every.items[-20:]
    ]
    np.testing.assert_array_equal(some.clicks.sum(axis=1), every.clicks[-20:].sum(axis=1))
