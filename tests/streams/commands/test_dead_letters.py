"""glimpse dead-letters: what was refused and why, and back to its topic after a fix."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from jobs import Jobs, wait_until
from kafka import KafkaProducer
from typer.testing import CliRunner

from schemas.codec import decode, encode
from schemas.records import Click, DeadLetter, Impression, SampleBatch
from streams.commands.main import cli
from streams.embedded.job import Embedded
from streams.events import EventReader, click_of, impression_of
from streams.logs import cut_to_fit, not_to_resend
from streams.logs.job import KafkaSource
from streams.settings import Bucket, Settings

BUCKET = Bucket("main", "c2ucb", dim=1, positions=2)


def shown(name: str, bucket: str, at_ms: int) -> Impression:
    ids = {"impression_id": name, "session_id": "s", "bucket": bucket, "user_id": "u"}
    return impression_of([7, 9], [[1.0], [0.5]], shown_at_ms=at_ms, **ids)


def run(*words):
    done = CliRunner().invoke(cli, ["dead-letters", *words])
    assert done.exit_code == 0, done.exception
    return done


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A directory in which three lists and a click were refused, one after another."""
    monkeypatch.chdir(tmp_path)
    with Embedded(tmp_path / "loop", Settings(buckets={"main": BUCKET})) as loop:
        for at_ms, bucket in ((1_000, "b1"), (2_000, "b2"), (3_000, "main"), (4_000, "b3")):
            loop.append([shown(f"i{at_ms}", bucket, at_ms)], at_ms=at_ms)
            loop.step(now_ms=at_ms)
        loop.append(
            [click_of(impression_id="i3000", session_id="s", position=2, clicked_at_ms=90_000_000)], at_ms=5_000
        )
        loop.step(now_ms=5_000)
    return "loop"


def test_letters_are_counted_by_reason_and_shown_newest_first(refused):
    told = json.loads(run(refused, "--json").stdout)
    assert [(kind["topic"], kind["count"], kind["first_ms"], kind["last_ms"]) for kind in told["reasons"]] == [
        ("clicks", 1, 5_000, 5_000),
        ("impressions", 3, 1_000, 4_000),
    ]
    assert [letter["refused_at_ms"] for letter in told["letters"]] == [5_000, 4_000, 2_000, 1_000]
    assert told["letters"][1]["decoded"]["fields"]["impression_id"] == "i4000"
    assert told["letters"][1]["decoded"]["fields"]["items"] == {"length": 2, "first": [7, 9]}
    text = run(refused, "--limit", "2").stdout
    assert text.index("i3000") < text.index("i4000")
    assert "i2000" not in text
    assert "Impression: " in text


def test_letters_are_chosen_by_reason(refused):
    told = json.loads(run(refused, "--json", "--reason", "'B2'").stdout)
    assert [letter["refused_at_ms"] for letter in told["letters"]] == [2_000]
    assert run(refused, "--reason", "nothing like it").stdout == "no dead letters\n"


def test_an_archive_is_no_place_to_resend_to(refused):
    assert CliRunner().invoke(cli, ["dead-letters", refused, "--resend", "--yes"]).exit_code == 1


GOOD = encode(shown("i", "main", 10_000))
HELD = {
    "of samples": (DeadLetter("p-samples", 0, 1, 2, b"main", b"x", "no"), "of samples"),
    "of another deployment": (DeadLetter("impressions", 0, 1, 2, b"s", GOOD, "no"), "of neither"),
    "unreadable": (DeadLetter("p-impressions", 0, 1, 2, b"s", GOOD[:-1], "no"), "unreadable"),
    "of the other topic": (DeadLetter("p-clicks", 0, 1, 2, b"s", GOOD, "no"), "unreadable"),
    "a tombstone": (DeadLetter("p-clicks", 0, 1, 2, b"s", None, "no"), "unreadable"),
    "cut": (cut_to_fit(DeadLetter("p-impressions", 0, 1, 2, b"s", GOOD, "no"), max_bytes=len(GOOD) - 1), "cut"),
    "old": (DeadLetter("p-impressions", 0, 1, 2, b"s", encode(shown("i", "b", 4_999)), "no"), "too old"),
    "an old click": (DeadLetter("p-clicks", 0, 1, 2, b"s", encode(Click("i", "s", 1, 4_999)), "no"), "too old"),
    "good": (DeadLetter("p-impressions", 0, 1, 2, b"s", GOOD, "no"), None),
}


@pytest.mark.parametrize("letter, why", HELD.values(), ids=HELD)
def test_what_would_be_refused_again_or_count_twice_is_held_back(letter, why):
    found = not_to_resend(letter, EventReader(), topic_prefix="p-", passed_before_ms=5_000)
    assert found is None if why is None else found.startswith(why)


def test_after_a_fix_what_was_refused_is_joined(settings_for, tmp_path, monkeypatch):
    """A bucket that nobody had configured: its list is refused, sent again once it is, and joined with its click."""
    monkeypatch.chdir(tmp_path)
    now_ms = round(time.time() * 1000)
    settings = settings_for(buckets={"main": BUCKET}, partitions=1, wait_s=1.0, lateness_s=600.0)
    jobs = Jobs(settings, tmp_path)
    source = KafkaSource(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka)

    def send(topic: str, *events: Impression | Click, at_ms: int) -> None:
        for event in events:
            key = event.session_id.encode()
            producer.send(settings.topic_prefix + topic, encode(event), key, timestamp_ms=at_ms).get(10)

    def records(topic: str):
        start, stop = source.bounds(topic, 0)
        return [record for block in source.read(topic, 0, start, stop) for record in block.records()]

    try:
        send("impressions", shown("early", "later", now_ms), at_ms=now_ms)
        send("clicks", Click("early", "s", 2, now_ms), at_ms=now_ms)
        join = jobs.start("join", "--from", "earliest")
        wait_until(lambda: len(records("dead-letters")) == 1, timeout_s=60, jobs=jobs)
        jobs.terminate(join, 20)
        fixed = replace(settings, buckets={"main": BUCKET, "later": replace(BUCKET, name="later")})
        jobs = Jobs(fixed, tmp_path)
        plan = run("--resend")
        assert f"1 would be sent to Kafka at {settings.kafka}: 1 to {settings.topic_prefix}impressions" in plan.stderr
        assert len(records("impressions")) == 1
        done = run("--resend", "--yes")
        assert f"writes to Kafka at {settings.kafka}: {settings.topic_prefix}impressions" in done.stderr
        first, again = records("impressions")
        assert again[1:] == first[1:]  # stamp, key and value
        run("--resend", "--yes")  # twice: counts once
        send("impressions", shown("a", "main", now_ms + 9_000), at_ms=now_ms + 9_000)  # so that the log's clock moves
        jobs.start("join")
        wait_until(lambda: len(records("samples")) >= 1, timeout_s=60, jobs=jobs)
    finally:
        jobs.close()
        producer.close()
    batch = decode(records("samples")[0].value, SampleBatch)
    source.close()
    assert (batch.bucket, batch.impression_ids) == ("later", ["early"])
    np.testing.assert_array_equal(batch.rewards_array, [0.0, 1.0])
