"""Whoever reads raw events tells the same of events with either framing, by the ids of `[registry]`."""

import json
import time
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from jobs import write_toml
from kafka import KafkaProducer
from replay_runs import SETTINGS, hashes, live, play
from typer.testing import CliRunner

from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.advise.job.advise import arrival_delays
from streams.commands.main import cli
from streams.compare import CompareChoice, compare
from streams.compare.job import SampleFollower
from streams.dashboard.archive_source import ArchiveFollower
from streams.dashboard.job.feed import Feed, State
from streams.events import EventReader, codec_of
from streams.ledger import Selection
from streams.ledger.job import join_commits
from streams.ledger.unlearning import plan_unlearning
from streams.logs import Archive, letters_end, not_to_resend, opened, read_letters
from streams.logs.job import KafkaSource, open_source
from streams.offline import ListChoice, LogError, read_own_logs
from streams.settings import EVENTS, Topics

REGISTERED = replace(SETTINGS, registry={7: "impressions", 8: "clicks"})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run twice: its events with single-object framing, and with Confluent framing."""
    plain, confluent = (tmp_path_factory.mktemp(name) for name in ("plain", "confluent"))
    play(plain, 1, SETTINGS)
    play(confluent, 1, REGISTERED)
    return plain, confluent


def payloads(folder, topic):
    return [record.value for block in Archive(folder).log(topic, 0).read() for record in block.records()]


def test_the_embedded_runner_writes_the_framing_of_the_registry_and_learns_the_same(runs):
    plain, confluent = runs
    for number, topic in zip((7, 8), EVENTS, strict=True):
        assert {value[:2] for value in payloads(plain, topic)} == {b"\xc3\x01"}
        assert {value[:5] for value in payloads(confluent, topic)} == {b"\0\0\0\0" + bytes([number])}
    assert {value[:5] for value in payloads(confluent, "late-clicks")} == {b"\0\0\0\0\x08"}
    assert live(confluent) == live(plain)


def letters(source, settings):
    reader = EventReader.of(settings)
    return [
        (opened(refusal.letter, reader)["decoded"], not_to_resend(refusal.letter, reader, topic_prefix=""))
        for refusal in read_letters(source, letters_end(source))
    ]


def delays(source, settings):
    return arrival_delays(source, settings)[0].tolist()


def losses(source, settings):
    follower = SampleFollower(source, EventReader.of(settings))
    follower.read()
    compared = compare(follower.sums, follower.losses, CompareChoice())
    return follower.losses.clicks, [bucket.lost_clicks for bucket in compared.buckets]


def unlearned(source, settings):
    options = {"selection": Selection(users=frozenset(["user-1"])), "commits": join_commits(source)}
    return plan_unlearning(source, settings, bucket="ubm", partition=0, **options).lists


def fitted(source, settings):
    logs, _ = read_own_logs(source, settings, ListChoice(buckets=("ubm",), events=True))
    return logs.items.tolist(), logs.clicks.tolist()


def page(source, settings):
    shown, follower = State(settings, source_name="a log", clock=lambda: 0), ArchiveFollower(source.archive.path)
    while True:
        update = follower.poll()
        shown.add(update)
        if not update.behind:
            return json.loads(Feed().message(shown))["delays"]


READERS = {
    "dead-letters": letters,
    "advise": delays,
    "compare": losses,
    "unlearn": unlearned,
    "fit": fitted,
    "dashboard": page,
    "replay": lambda source, settings: hashes(source.archive.path, settings),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_readers_of_raw_events_tell_the_same_of_both_framings(runs, read):
    def told(folder, settings):
        with closing(open_source(str(folder), settings)) as source:
            return read(source, settings)

    plain, confluent = runs
    expected = told(plain, SETTINGS)
    assert expected
    assert told(confluent, REGISTERED) == expected
    with suppress(LogError):
        assert told(confluent, SETTINGS) != expected, "without the ids of the registry nothing can be read"


def test_letters_with_confluent_framing_are_sent_again(settings_for, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = settings_for(registry={7: "impressions", 8: "clicks"}, partitions=1)
    write_toml(settings, tmp_path / "glimpse.toml")
    now_ms = round(time.time() * 1000)
    click = codec_of(settings).encode(Click("i", "s", 1, now_ms))
    letter = DeadLetter(Topics.of(settings).clicks, 0, 0, now_ms, b"s", click, "a bound that was too low")
    with closing(KafkaProducer(bootstrap_servers=settings.kafka)) as producer:
        producer.send(Topics.of(settings).dead_letters, encode(letter)).get(10)
    done = CliRunner().invoke(cli, ["dead-letters", "--resend", "--yes"])
    assert done.exit_code == 0, done.exception
    with closing(KafkaSource(settings)) as source:
        [block] = source.read("clicks", 0, *source.bounds("clicks", 0))
        assert [record.value for record in block.records()] == [click]
