"""A batch that is damaged on the broker's disk stops its own partition, loudly; mended, the partition goes on."""

import logging
from contextlib import closing
from dataclasses import replace

import pytest
from damage import FlippedByte
from jobs import Jobs, wait_until
from joined import BUCKETS, Net, Reader, events, joining, lists_wanted, load
from kafka import KafkaProducer, TopicPartition
from sample_batches import SampleWriter, hashes, learned

from schemas.codec import decode, encode
from streams.broker import partition_of
from streams.join.job import owner
from streams.parameters import ROLLOUT, rollout_of
from streams.parameters.job import KafkaParameters
from streams.settings import Bucket, Topics


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_the_join_refuses_that_partition_alone_until_it_can_be_read(
    new_broker, settings_for, caplog, monkeypatch, client
):
    monkeypatch.setattr(owner, "REFUSED_S", 3.0)
    caplog.set_level(logging.INFO)
    broker = new_broker()
    times = {"wait_s": 10.0, "lateness_s": 10.0, "future_s": 5.0}
    settings = settings_for(kafka=broker.bootstrap, buckets=BUCKETS, partitions=2, kafka_client=client, **times)
    impressions, clicks = events(10_000, seed=1)
    load(settings, impressions, clicks)
    topic, wanted = Topics.of(settings).impressions, lists_wanted(impressions, clicks)
    raw = Reader(settings, topic)
    whole = {decode(record.value).impression_id for record in raw.read() if record.partition == 1}
    raw.close()
    damage, net = FlippedByte(broker.folder, TopicPartition(topic, 0)), Net(settings)
    try:
        with joining(settings):
            wait_until(lambda: whole <= {name for name, _, _ in net.now()}, timeout_s=60)
            refused = f"cannot read partition 0 of {topic} at offset {damage.offset}"
            wait_until(lambda: caplog.text.count(refused) > 1, timeout_s=60)
            assert len(net.now()) < len(wanted)
            damage.turn()
            wait_until(lambda: net.now() == wanted, timeout_s=60)
    finally:
        net.close()


@pytest.fixture
def learning(new_broker, settings_for, tmp_path):
    """A broker of its own with samples of four buckets on two partitions, and what learns and reads them."""
    broker = new_broker()
    buckets = {name: Bucket(name, "c2ucb", 3, 4) for name in ("a", "b", "c", "d")}
    assert {partition_of(name, 2) for name in buckets} == {0, 1}
    settings = settings_for(kafka=broker.bootstrap, buckets=buckets, partitions=2, publish_every_s=0.3)
    writer, jobs, reader = SampleWriter(settings), Jobs(settings, tmp_path), KafkaParameters(settings)
    for _ in range(40):
        writer.write(lists=5)
    yield broker, writer, jobs, reader
    for one in (jobs, writer, reader):
        one.close()


def right(reader, writer, partition):
    """Whether all buckets of a partition have learned what was written."""
    ours, wanted = hashes(reader), writer.hashes()
    return all(ours.get(name) == wanted[name] for name in wanted if partition_of(name, 2) == partition)


def test_the_learner_holds_that_partition_alone_until_it_can_be_read(learning):
    broker, writer, jobs, reader = learning
    damage = FlippedByte(broker.folder, TopicPartition(writer.topic, 0))
    process = jobs.start("learn")
    wait_until(lambda: right(reader, writer, 1), timeout_s=60, jobs=jobs)
    refused = f"at offset {damage.offset}: CorruptRecord"
    wait_until(lambda: refused in jobs.logs[process.pid].read_text(), timeout_s=60, jobs=jobs)
    writer.write(lists=5)
    wait_until(lambda: right(reader, writer, 1), timeout_s=60, jobs=jobs)
    assert not right(reader, writer, 0)
    damage.turn()
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)


def test_a_rollout_that_cannot_read_the_past_waits_and_the_older_epoch_learns_on(learning):
    broker, writer, jobs, reader = learning
    process = jobs.start("learn")
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    damage = FlippedByte(broker.folder, TopicPartition(writer.topic, partition_of("a", 2)))
    old = jobs.settings.buckets["a"]
    with closing(KafkaProducer(**jobs.settings.kafka_options())) as producer:
        rollout = encode(rollout_of(replace(old, ridge=3.0, epoch=2), old, now_ms=0))
        producer.send(Topics.of(jobs.settings).parameters, key=f"{ROLLOUT}a".encode(), value=rollout).get(10)
    wait_until(lambda: "does not catch up: cannot read" in jobs.logs[process.pid].read_text(), timeout_s=60, jobs=jobs)
    writer.write(lists=5)
    wait_until(lambda: learned(reader, writer), timeout_s=60, jobs=jobs)
    assert reader.snapshots["a"].epoch == 1
    damage.turn()
    wait_until(lambda: hashes(reader) and reader.snapshots["a"].epoch == 2, timeout_s=60, jobs=jobs)
    assert reader.snapshots["a"].rounds == writer.models["a"].rounds
