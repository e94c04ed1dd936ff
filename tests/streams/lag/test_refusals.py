"""Lag where the broker does not answer, or must not."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import astuple

import pytest
from by_hand import SHORT, commit, denied, lag_of, write
from kafka.admin import ACLOperation, ResourceType
from paused import paused

from streams.broker import admin
from streams.lag import Window
from streams.lag.job import LagReader
from streams.lag.job.reader import LagError
from streams.lag.job.view import looks
from streams.lag.verdict import Verdict
from streams.local.kafka import VERSION, LocalKafka
from streams.local.server import free_port
from streams.settings import Settings, Topics


def test_refused_reading_is_one_line_or_worked_around(settings_for, reader_of, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    topic, group = Topics.of(settings).impressions, settings.topic_prefix + "g"
    write(settings, topic, [b"x"] * 3)
    commit(settings, group, topic, 1)
    with denied(settings, ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ):
        window = Window(span_s=3.0, commits=4)
        reader = reader_of(settings, group, window=window)
        partition = lag_of(reader, group, topic)
        assert (partition.lag, partition.verdict) == (2, Verdict.OK)
        assert not reader.settled
        time.sleep(window.span_s + 0.2)
        report = reader.read()
        assert reader.settled
        assert report.notes[0].startswith("__consumer_offsets must not be read, so commit times are hidden")
        [partition] = report.groups[2].partitions
        assert partition.verdict is Verdict.STOP

    for kind, name, operation in [
        (ResourceType.GROUP, group, ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, topic, ACLOperation.READ),
        (ResourceType.TOPIC, topic, ACLOperation.DESCRIBE),
    ]:
        with denied(settings, kind, name, operation):
            with pytest.raises(LagError, match=r"does not let this user look: .*; lag needs READ on") as refused:
                reader.read()
            assert "\n" not in str(refused.value)
    assert reader.read().notes == ()


def test_an_open_transaction_of_a_hidden_owner_has_the_age_of_its_first_record(settings_for, reader_of, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    topic, group = Topics.of(settings).samples, settings.topic_prefix + "h"
    commit(settings, group, topic, 0)
    begun_ms = round(time.time() * 1000) - 20_000
    producer = write(
        settings, topic, [b"x"] * 2, timestamps=[begun_ms, begun_ms + 5000], transaction=group + "w", end="open"
    )
    with denied(settings, ResourceType.TRANSACTIONAL_ID, group + "w", ACLOperation.DESCRIBE):
        partition = lag_of(reader_of(settings, group), group, topic)
    producer.abort_transaction()
    producer.close(5)
    assert (partition.transaction.writer, partition.transaction.offsets) == ("", 2)
    assert partition.transaction.age_s == pytest.approx(time.time() - begun_ms / 1000, abs=3)


def test_the_command_says_in_one_line_that_nobody_answers(settings_for, strict_broker, tmp_path):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    (tmp_path / "glimpse.toml").write_text(f'kafka = "{settings.kafka}"\ntopic_prefix = "{settings.topic_prefix}"\n')
    glimpse = [sys.executable, "-m", "streams.cli", "lag", "--window", "1", "--config", str(tmp_path / "glimpse.toml")]
    done = subprocess.run([*glimpse, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "OK"

    stamps = [round(time.time() * 1000) - 10_000, round(time.time() * 1000)]
    write(settings, Topics.of(settings).impressions, [b"x", b"x"], timestamps=stamps)
    done = subprocess.run([*glimpse, "--max-lag-seconds", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"impressions\[0\] is \d\d s behind, more than 5\.0 s", done.stdout)

    with LagReader(settings, window=SHORT) as reader:
        reader.read()
        with paused(strict_broker):
            asking = subprocess.Popen(glimpse, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                with pytest.raises(LagError, match=r"^Kafka at 127.0.0.1:\d+ does not answer: [^\n]*$"):
                    reader.read()
                out, err = asking.communicate(timeout=120)
            finally:
                asking.kill()
        assert (asking.returncode, out) == (2, "")
        assert err.startswith(f"glimpse lag: Kafka at {settings.kafka} does not answer: ")
        assert err.count("\n") == 1
        again = next(look for look in looks(reader, every_s=0.5, rounds=30) if not isinstance(look, LagError))
        assert again.groups[0].lag == 2  # it recovers by itself


def test_lag_needs_no_more_rights_than_it_says(settings_for, reader_of, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    names = Topics.of(settings)
    write(settings, names.impressions, [b"x"] * 3)
    with ExitStack() as rights:
        for kind, name, operation in [
            (ResourceType.TOPIC, names.impressions, ACLOperation.DESCRIBE_CONFIGS),
            (ResourceType.TOPIC, names.dead_letters, ACLOperation.READ),
            (ResourceType.TOPIC, names.late_clicks, ACLOperation.DESCRIBE),
            (ResourceType.GROUP, settings.topic_prefix + "glimpse-learn", ACLOperation.DESCRIBE),
        ]:
            rights.enter_context(denied(settings, kind, name, operation))
        report = reader_of(settings).read()
    assert report.groups[0].partitions[0].lag == 3
    assert report.groups[1].members is None
    assert report.notes == (
        f"no DESCRIBE_CONFIGS on {names.impressions}, so nobody knows how long their records are kept",
    )


def test_the_first_look_at_a_new_broker_and_at_a_partition_without_a_leader(settings_for, new_broker, tmp_path):
    first = new_broker()
    settings = settings_for(kafka=first.bootstrap, partitions=1)
    with LagReader(settings, window=SHORT) as reader:
        assert reader.read().verdict is Verdict.OK  # the broker makes its offsets topic only now

    second = LocalKafka(tmp_path / "second")
    second.config |= {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{second.port}",
        "controller.quorum.voters": first.config["controller.quorum.voters"],
    }
    known = (first.folder / "data" / "meta.properties").read_text().splitlines()
    cluster = [line for line in known if line.startswith(("version", "cluster.id"))]
    (tmp_path / "second" / "data").mkdir(parents=True)
    (tmp_path / "second" / "data" / "meta.properties").write_text("\n".join([*cluster, "node.id=2"]))
    (tmp_path / "second" / "kafka.version").write_text(VERSION)
    second.start()
    try:
        settings = Settings(kafka=first.bootstrap, topic_prefix="two-", partitions=2)
        names = Topics.of(settings)
        with admin(settings) as client:
            give_up_at = time.monotonic() + 20
            while len(client.describe_cluster()["brokers"]) < 2:
                assert time.monotonic() < give_up_at
                time.sleep(0.2)
            homes = {name: {0: [1], 1: [2 if name == names.impressions else 1]} for name in astuple(names)}
            client.create_topics({name: {"assignments": homes[name]} for name in astuple(names)})
            client.wait_for_topics(list(astuple(names)))
        write(settings, names.impressions, [b"x"] * 5)
        with LagReader(settings, window=SHORT) as reader:
            reader.read()
            second.kill()
            report = next(look for look in looks(reader, every_s=0.5, rounds=40) if not isinstance(look, LagError))
            while "no leader" not in report.groups[0].reason:
                assert time.monotonic() < give_up_at + 20, report
                time.sleep(0.5)
                report = reader.read()
        assert report.groups[0].verdict is Verdict.STOP
        assert report.groups[0].reason.startswith(f"{names.impressions}[1] has no leader")
        assert [partition.lag for partition in report.groups[0].partitions] == [5, 0, 0, 0]
    finally:
        second.kill()


def test_whatever_goes_wrong_is_2_and_never_behind(tmp_path):
    config = tmp_path / "glimpse.toml"
    config.write_text(f'kafka = "127.0.0.1:{free_port()}"')
    glimpse = [sys.executable, "-m", "streams.cli", "lag", "--config"]
    away = subprocess.run([*glimpse, str(config), "--json"], capture_output=True, text=True, check=False)
    assert away.returncode == 2
    assert "does not answer" in json.loads(away.stdout)["error"]
    assert away.stderr.count("\n") == 1
    config.write_text("kafka = 5")
    for file in (config, tmp_path / "none.toml"):
        wrong = subprocess.run([*glimpse, str(file)], capture_output=True, text=True, check=False)
        assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1), wrong.stderr


def test_a_watched_terminal_is_left_as_it_was_found(settings_for, tmp_path):
    settings = settings_for(partitions=1)
    config = tmp_path / "glimpse.toml"
    config.write_text(f'kafka = "{settings.kafka}"\ntopic_prefix = "{settings.topic_prefix}"')
    command = [sys.executable, "-m", "streams.cli", "lag", "--watch", "--config", str(config)]
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while b"learn" not in seen:
        seen += os.read(ours, 1 << 16)
    watching.terminate()
    assert watching.wait(15) == 0
    seen += os.read(ours, 1 << 16)
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")  # the cursor is shown again
    os.close(ours)
