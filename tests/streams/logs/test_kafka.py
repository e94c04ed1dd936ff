"""Topics of a real broker into an archive and back: every record with its offset, key, value and time stamp."""

from contextlib import closing
from dataclasses import replace

import pytest
from jobs import write_toml
from kafka import KafkaProducer, TopicPartition
from typer.testing import CliRunner

from streams.broker import TopicsError, check_topics
from streams.broker.topics import admin
from streams.commands.main import cli
from streams.logs import Archive, ArchiveError, RangeError
from streams.logs.job import KafkaSource, copy, restore

START = 1_700_000_000_000


def send(settings, topic, count, *, start=0, transaction=None):
    """Write records into both partitions, every second one without key; in transactions of 10 when it is named."""
    options = {"transactional_id": transaction} if transaction else {"acks": "all"}
    producer = KafkaProducer(**settings.kafka_options(), **options)
    try:
        if transaction:
            producer.init_transactions()
        for number in range(start, start + count):
            if transaction and number % 10 == 0:
                producer.begin_transaction()
            key = b"k%d" % number if number % 2 else None
            value = b"%d" % number * 50
            producer.send(settings.topic_prefix + topic, value, key, None, number % 2, START + number * 1000)
            if transaction and number % 10 == 9:
                producer.commit_transaction()
        producer.flush()
    finally:
        producer.close()


def on_broker(settings, topic, partition):
    with closing(KafkaSource(settings)) as source:
        bounds = source.bounds(topic, partition)
        return [record for block in source.read(topic, partition, *bounds) for record in block.records()]


def archived(archive, topic, partition):
    return [record for block in archive.log(topic, partition).read() for record in block.records()]


def test_a_copy_holds_every_record_and_goes_on(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "impressions", 60)
    send(settings, "samples", 60, transaction=f"{settings.topic_prefix}t")
    asked = {"topics": ("impressions", "samples")}
    copied = copy(settings, archive, **asked)
    assert sum(part.records for part in copied) == 120
    send(settings, "impressions", 20, start=60)
    send(settings, "samples", 20, start=60, transaction=f"{settings.topic_prefix}t")
    assert [part.records for part in copy(settings, archive, **asked)] == [10] * 4
    assert [part.records for part in copy(settings, archive, **asked)] == [0] * 4
    for topic in asked["topics"]:
        for partition in (0, 1):
            wanted = on_broker(settings, topic, partition)
            assert archived(archive, topic, partition) == wanted
            assert len(wanted) == 40
            assert (archive.log(topic, partition).end > 40) == (topic == "samples"), "markers take offsets"
            assert archive.log(topic, partition).end == KafkaSource(settings).bounds(topic, partition)[1]


def test_a_copy_of_a_range_of_time(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "clicks", 40)
    copy(settings, archive, topics=["clicks"], from_ms=START + 9_500, to_ms=START + 30_000)
    found = [record.timestamp for partition in (0, 1) for record in archived(archive, "clicks", partition)]
    assert sorted(found) == [START + number * 1000 for number in range(10, 30)]
    assert archive.log("clicks", 0).start == 5


def test_an_open_transaction_is_not_copied(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    producer = KafkaProducer(**settings.kafka_options(), transactional_id=f"{settings.topic_prefix}open")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(settings.topic_prefix + "samples", b"maybe", None, None, 0).get(10)
    assert sum(part.records for part in copy(settings, archive, topics=["samples"])) == 0
    producer.abort_transaction()
    producer.close()
    assert sum(part.records for part in copy(settings, archive, topics=["samples"])) == 0
    send(settings, "samples", 10, transaction=f"{settings.topic_prefix}t")
    assert sum(part.records for part in copy(settings, archive, topics=["samples"])) == 10


def test_what_does_not_belong_together_is_refused(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "clicks", 4)
    copy(settings, archive, topics=["clicks"])
    with pytest.raises(ArchiveError, match="take another directory"):
        copy(settings_for(partitions=2), archive, topics=["clicks"])
    with pytest.raises(RangeError, match="no topic is called click; there are impressions"):
        copy(settings, archive, topics=["click"])
    with pytest.raises(RangeError, match=r"no topic 'x-clicks' on Kafka at .*glimpse topics"):
        copy(replace(settings, topic_prefix="x-"), Archive(tmp_path / "x"), topics=["clicks"])


def test_records_that_retention_took_before_they_were_copied_are_named(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "clicks", 20)
    copy(settings, archive, topics=["clicks"])
    send(settings, "clicks", 20, start=20)
    with admin(settings) as client:
        client.delete_records({TopicPartition(settings.topic_prefix + "clicks", 1): 15})
    with pytest.raises(ArchiveError, match=r"ends at offset 10, but .* has deleted clicks 1 up to 15"):
        copy(settings, archive, topics=["clicks"])
    later = Archive(tmp_path / "later")
    copy(settings, later, topics=["clicks"])
    assert (later.log("clicks", 0).start, later.log("clicks", 1).start) == (0, 15)


def test_restored_events_are_the_same_and_a_broken_restore_goes_on(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "impressions", 50)
    send(settings, "clicks", 30)
    copy(settings, archive, topics=["impressions", "clicks"])
    target = settings_for(partitions=2)
    send(target, "impressions", 14)  # as if a restore had been killed
    done = restore(target, archive)
    assert [part.records for part in done] == [18, 18, 15, 15]
    for topic in ("impressions", "clicks"):
        for partition in (0, 1):
            assert on_broker(target, topic, partition) == on_broker(settings, topic, partition)
    assert [part.records for part in restore(target, archive)] == [0] * 4


def test_a_restore_that_would_mix_or_lose_something_is_refused(settings_for, tmp_path):
    settings, archive = settings_for(partitions=2), Archive(tmp_path)
    send(settings, "impressions", 10)
    copy(settings, archive, topics=["impressions"])
    send(settings, "impressions", 4, start=100)
    with pytest.raises(ArchiveError, match="holds other records than the archive"):
        restore(settings, archive, topics=["impressions"])
    with pytest.raises(TopicsError, match="has 3 partitions, the archive 2"):
        restore(settings_for(partitions=3), archive, topics=["impressions"])
    with pytest.raises(TopicsError, match=r"set timestamps = .CreateTime."):
        restore(settings_for(partitions=2, timestamps="LogAppendTime"), archive, topics=["impressions"])
    with pytest.raises(TopicsError, match="no topic 'gone-impressions'"):
        restore(replace(settings, topic_prefix="gone-"), archive, topics=["impressions"])
    assert check_topics(settings) == []


def test_the_commands_copy_there_and_back(settings_for, tmp_path):
    settings, target = settings_for(partitions=2), settings_for(partitions=2)
    send(settings, "impressions", 20)
    (tmp_path / "target").mkdir()
    here, there = (
        write_toml(one, folder / "glimpse.toml")
        for one, folder in ((settings, tmp_path), (target, tmp_path / "target"))
    )
    folder, run = str(tmp_path / "archive"), CliRunner().invoke
    first = run(cli, ["archive", folder, "--config", str(here)])
    assert (first.exit_code, first.stdout.count("0 to 10\t10 records")) == (0, 2), first.output
    again = run(cli, ["archive", folder, "--topic", "impressions", "--config", str(here)])
    assert again.stdout.splitlines() == ["impressions\t0\t10 to 10\t0 records", "impressions\t1\t10 to 10\t0 records"]
    back = run(cli, ["restore", folder, "--config", str(there)])
    assert (back.exit_code, back.stdout.count("10 records, 10 in all")) == (0, 2), back.output
    assert on_broker(target, "impressions", 1) == on_broker(settings, "impressions", 1)
