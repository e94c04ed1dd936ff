"""A golden log gives its hashes with both clients of Kafka, in one group too, with every codec and both framings."""

import json
import time
from contextlib import closing
from io import BytesIO

import golden
import pytest
from fastavro import schemaless_writer
from jobs import Jobs, wait_until
from joined import commits
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from msgspec.structs import asdict

from schemas.codec import SchemaError, decode
from schemas.known import SCHEMAS
from schemas.records import Click
from streams.events.reader import codec_of
from streams.logs.job import KafkaSource
from streams.parameters.job import KafkaParameters
from streams.settings import EVENTS, Topics

LATER_MS = 86_400_000
GOLDEN = {
    "buckets": golden.BUCKETS,
    "partitions": golden.PARTITIONS,
    "wait_s": golden.WAIT_MS / 1000,
    "lateness_s": golden.LATENESS_MS / 1000,
    "future_s": 10.0,
    "publish_every_s": 0.3,
}
# How a broker writes each topic, whatever its producers send: a batch of any codec may come on any of them.
CODECS = {"impressions": "snappy", "clicks": "zstd", "samples": "snappy", "parameters": "lz4"}


def is_event(value):
    try:
        return bool(decode(value))
    except SchemaError:
        return False


def load(settings, framed=lambda value: value):
    """Write the golden log to its partitions, and behind it events that are none, a day later: so all lists close."""
    producer = KafkaProducer(**settings.kafka_options(), linger_ms=20, batch_size=1 << 18, compression_type="lz4")
    for partition, logs in enumerate(golden.logs(seed=20_000)):
        for topic, log in zip(Topics.of(settings).events, logs, strict=True):
            for _, timestamp_ms, key, value in log:
                producer.send(topic, framed(value), key, None, partition, timestamp_ms)
            for key in (b"one", b"other"):
                producer.send(topic, None, key, None, partition, log[-1].timestamp + LATER_MS)
    producer.flush()
    producer.close()


@pytest.fixture
def settings(settings_for):
    return settings_for(**GOLDEN)


@pytest.mark.parametrize("clients", [("confluent", "confluent"), ("confluent", "kafka-python")], ids="+".join)
def test_a_golden_log_gives_the_hashes_written_down_whoever_reads_it(settings, tmp_path, clients):
    learn_golden_log(settings, tmp_path, clients)


def test_it_gives_them_however_the_topics_are_compressed(settings, tmp_path):
    client = KafkaAdminClient(**settings.kafka_options())
    topics = {getattr(Topics.of(settings), name): {"compression.type": codec} for name, codec in CODECS.items()}
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, codec) for name, codec in topics.items()])
    client.close()
    learn_golden_log(settings, tmp_path, ["kafka-python"])


def test_events_with_confluent_framing_give_them_too(settings_for, tmp_path):
    own = {**SCHEMAS[Click], "fields": [*SCHEMAS[Click]["fields"], {"name": "device", "type": "string"}]}
    (tmp_path / "own.avsc").write_text(json.dumps(own))
    settings = settings_for(**GOLDEN, registry={7: "impressions", 8: "clicks", 9: str(tmp_path / "own.avsc")})
    codec = codec_of(settings)

    def framed(value):
        """Return an event behind the id of its schema, every third click of a schema with a field more."""
        try:
            event = decode(value)
        except SchemaError:
            return value
        if not isinstance(event, Click) or event.clicked_at_ms % 3:
            return codec.encode(event)
        out = BytesIO()
        out.write(b"\0" + (9).to_bytes(4, "big"))
        schemaless_writer(out, own, {**asdict(event), "device": "phone"})
        return out.getvalue()

    learn_golden_log(settings, tmp_path, ["kafka-python"], framed)
    with closing(KafkaSource(settings)) as source:
        for topic in EVENTS:
            logs = [source.read(topic, number, *source.bounds(topic, number)) for number in range(settings.partitions)]
            written = [record.value for log in logs for block in log for record in block.records() if record.value]
            ids = [7] if topic == "impressions" else [8, 9]
            assert {value[:5] for value in written} >= {b"\0" + number.to_bytes(4, "big") for number in ids}
            assert not list(filter(is_event, written)), "single-object framing"


def learn_golden_log(settings, tmp_path, clients, framed=lambda value: value):
    """Have the golden log joined by these clients, and learned; whoever was first is killed on the way."""
    jobs, parameters = Jobs(settings, tmp_path), KafkaParameters(settings)

    def hashes():
        parameters.catch_up(timeout_s=60)
        return {bucket: snapshot.sha256 for bucket, snapshot in parameters.snapshots.items()}

    try:
        workers = [jobs.start("join", "--from", "earliest", GLIMPSE_KAFKA_CLIENT=client) for client in clients]
        jobs.start("learn")
        load(settings, framed)
        wait_until(lambda: len(commits(settings)) > 0, timeout_s=60, jobs=jobs)
        jobs.kill(workers[0])  # the other one may take over from the client that this was
        jobs.start("join", GLIMPSE_KAFKA_CLIENT=clients[0])
        wait_until(lambda: hashes() == golden.SNAPSHOTS, timeout_s=120, jobs=jobs)
        time.sleep(1)
        assert hashes() == golden.SNAPSHOTS
        assert all(commit.ledger.balanced for commit in commits(settings))
    finally:
        parameters.close()
        jobs.close()
