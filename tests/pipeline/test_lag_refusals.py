"""Lag where the broker does not answer, or must not."""

import json
import subprocess
import sys
import time

import pytest
from by_hand import SHORT, commit, denied, lag_of, write
from kafka.admin import ACLOperation, ResourceType

from streams.lagging.reader import LagError, LagReader
from streams.lagging.rules import Verdict
from streams.lagging.view import looks
from streams.topics import Topics


def test_refused_reading_is_one_line_or_worked_around(settings_for, reader_of, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, partitions=1)
    topic, group = Topics.of(settings).impressions, settings.topic_prefix + "g"
    write(settings, topic, [b"x"] * 3)
    commit(settings, group, topic, 1)
    with denied(settings, ResourceType.TOPIC, "__consumer_offsets", ACLOperation.READ):
        reader = reader_of(settings, group)
        found = lag_of(reader, group, topic)
        assert (found.lag, found.verdict) == (2, Verdict.OK)
        assert not reader.settled
        time.sleep(SHORT.span_s + 0.2)
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
        found = lag_of(reader_of(settings, group), group, topic)
    producer.abort_transaction()
    producer.close(5)
    assert (found.transaction.writer, found.transaction.offsets) == ("", 2)
    assert found.transaction.age_s == pytest.approx(time.time() - begun_ms / 1000, abs=3)


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
    assert "impressions[0] is 10 s behind, more than 5.0 s" in done.stdout

    with LagReader(settings, window=SHORT) as reader:
        reader.read()
        strict_broker.pause()
        asking = subprocess.Popen(glimpse, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            with pytest.raises(LagError, match=r"^Kafka at 127.0.0.1:\d+ does not answer: [^\n]*$"):
                reader.read()
            out, err = asking.communicate(timeout=30)
        finally:
            asking.kill()
            strict_broker.resume()
        assert (asking.returncode, out) == (2, "")
        assert err.startswith(f"glimpse lag: Kafka at {settings.kafka} does not answer: ")
        assert err.count("\n") == 1
        again = next(one for one in looks(reader, every_s=0.5, rounds=30) if not isinstance(one, LagError))
        assert again.groups[0].lag == 2  # it recovers by itself
