"""The same lists on Kafka, in its archive and in an embedded directory: the same numbers; and going on from there."""

import json
from contextlib import closing
from itertools import count

import pytest
from compared_lists import traffic
from msgspec.structs import replace
from replay_runs import SETTINGS, START
from rich.console import Console
from typer.testing import CliRunner

from schemas.codec import encode
from schemas.records import Impression
from streams.commands.main import cli
from streams.compare import CompareChoice, compare
from streams.compare.job import SampleFollower, show_comparison
from streams.embedded.job import Embedded
from streams.events import EventReader
from streams.events.job.produce import simulated_events
from streams.logs import Archive, ArchiveSource, LogBlock, LogRecord, LogWriter, SourceAway
from streams.logs.job import copy, open_source, restore
from streams.split import Split

TOPICS = ("samples", "late-clicks", "dead-letters")
VERSION = Split.of(SETTINGS).version


def play(folder, *, lists=900, first=0):
    """Run the embedded flow for some lists, every tenth click late and every fifteenth too late."""
    begin = START + first * 1000
    ticks, steps = count(begin, 50), {}
    for number, event in enumerate(simulated_events(SETTINGS, lists, seed=1 + first, clock=lambda: next(ticks) / 1000)):
        if isinstance(event, Impression):
            at, event = event.shown_at_ms, replace(event, split_version=VERSION)
        else:
            at = event.clicked_at_ms + (300_000 if number % 15 == 0 else 70_000 if number % 10 == 0 else 0)
        steps.setdefault(-(-at // 5_000) * 5_000, []).append(event)
    with Embedded(folder, SETTINGS, partitions=2) as loop:
        for at_ms in sorted(steps):
            loop.append(steps[at_ms], at_ms=at_ms)
            loop.step(at_ms)
        loop.step(at_ms + 1_000_000)


def numbers(place, settings, capsys, **options):
    code = show_comparison(str(place), settings, CompareChoice(control="cm"), as_json=True, **options)
    comparisons = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for comparison in comparisons:
        del comparison["open"], comparison["notes"]  # an archive has no join to ask
    return code, comparisons


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    play(folder)
    return folder


def test_kafka_its_archive_and_an_embedded_directory_give_the_same_numbers(directory, settings_for, tmp_path, capsys):
    settings = settings_for(partitions=2, timestamps="CreateTime", buckets=SETTINGS.buckets, wait_s=60, lateness_s=60)
    restore(settings, Archive(directory), topics=TOPICS)
    copy(settings, Archive(tmp_path), topics=TOPICS)
    embedded = numbers(directory, settings, capsys)
    assert numbers("kafka", settings, capsys) == embedded
    assert numbers(tmp_path, settings, capsys) == embedded
    code, [comparison] = embedded
    assert code == 0
    assert {bucket["bucket"]: bucket["lists"] for bucket in comparison["buckets"]}.keys() == SETTINGS.buckets.keys()
    assert sum(bucket["lists"] for bucket in comparison["buckets"]) == 900
    assert sum(bucket["lost_clicks"] for bucket in comparison["buckets"]) > 10
    assert comparison["sample_ratio"]["tested"]
    assert comparison["split"] == VERSION


def test_watching_goes_on_from_where_it_was(directory, tmp_path):
    play(tmp_path, lists=300)
    with closing(open_source(str(tmp_path), SETTINGS)) as source:
        follower = SampleFollower(source, EventReader())
        assert follower.read() > 0
        assert follower.read() == 0
        before = compare(follower.sums, follower.losses, CompareChoice())
    play(tmp_path, lists=200, first=2000)
    with closing(open_source(str(tmp_path), SETTINGS)) as source:
        follower.source = source
        taken = follower.read()
        whole = SampleFollower(source, EventReader())
        assert 0 < taken < whole.read()
    after = compare(follower.sums, follower.losses, CompareChoice())
    assert sum(bucket.lists for bucket in before.buckets) == 300
    assert sum(bucket.lists for bucket in after.buckets) == 500
    assert after == compare(whole.sums, whole.losses, CompareChoice())


def test_the_command_shows_writes_and_watches(directory, tmp_path, capsys):
    page = tmp_path / "report.html"
    code, looks = numbers(directory, SETTINGS, capsys, watch=True, every_s=0, rounds=2, report=page)
    assert (code, len(looks)) == (0, 2)
    assert looks[0] == looks[1]
    assert page.read_text().startswith("<!doctype html>")
    console = Console(width=80, record=True)
    show_comparison(str(directory), SETTINGS, CompareChoice(), positions=True, console=console)
    assert "CTR by position" in console.export_text()


def test_a_guardrail_ends_the_watching(tmp_path):
    archive = Archive(tmp_path)
    archive.add_topic("samples", partitions=1)
    batches = [
        traffic(name, lists=6_000, chance=chance, seed=1, split="") for name, chance in (("cm", 0.3), ("ubm", 0.2))
    ]
    LogWriter(archive.log("samples", 0)).append(
        LogBlock.of([LogRecord(offset, 0, b"", encode(batch)) for offset, batch in enumerate(batches)])
    )
    choice = CompareChoice(control="cm")
    assert show_comparison(str(tmp_path), SETTINGS, choice, watch=True, every_s=0, console=Console()) == 3


CASES = {
    "no samples": (["{empty}"], 2, "has no samples"),
    "no such control": (["{logs}", "--control", "x"], 2, "no lists of the control 'x'; there are cm, pbm, ubm"),
    "a share without weight": (["{logs}", "--share", "cm"], 2, "--share takes BUCKET=WEIGHT"),
    "an alarm": (["{logs}", "--share", "cm=1", "--share", "pbm=9"], 1, ""),
    "well": (["{logs}", "--share", "cm=1", "--share", "pbm=1"], 0, ""),
}


@pytest.mark.parametrize("arguments, code, words", CASES.values(), ids=CASES)
def test_exit_codes(directory, tmp_path, arguments, code, words):
    Archive(tmp_path).add_topic("clicks", partitions=1)
    places = {"{empty}": str(tmp_path), "{logs}": str(directory)}
    result = CliRunner().invoke(cli, ["compare", *(places.get(each, each) for each in arguments)])
    assert result.exit_code == code, result.output
    assert words in " ".join(result.output.split())


class Fails(ArchiveSource):
    """A source that goes away in the middle of its second reading, once."""

    def read(self, topic, partition, start, stop):
        for number, block in enumerate(super().read(topic, partition, start, stop)):
            if topic == "samples" and number == 1 and not self.failed:
                self.failed = True
                raise SourceAway("away")
            yield block

    failed = False


def test_a_source_that_goes_away_in_between_is_read_on_and_nothing_counts_twice(directory):
    source, whole = Fails(Archive(directory)), SampleFollower(ArchiveSource(Archive(directory)), EventReader())
    follower = SampleFollower(source, EventReader())
    with pytest.raises(SourceAway):
        follower.read()
    follower.read()
    whole.read()
    assert compare(follower.sums, follower.losses, CompareChoice()) == compare(
        whole.sums, whole.losses, CompareChoice()
    )
