"""Both clients of Kafka, in one group too, and every codec: a golden log gives the hashes that are written down."""

import time

import golden
import pytest
from jobs import Jobs, wait_until
from joined import commits
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from streams.parameters.job import KafkaParameters
from streams.settings import Topics

LATER_MS = 86_400_000
# How a broker writes each topic, whatever its producers send: a batch of any codec may come on any of them.
CODECS = {"impressions": "snappy", "clicks": "zstd", "samples": "snappy", "parameters": "lz4"}


def load(settings):
    """Write the golden log to its partitions, and behind it events that are none, a day later: so all lists close."""
    producer = KafkaProducer(**settings.kafka_options(), linger_ms=20, batch_size=1 << 18, compression_type="lz4")
    for partition, logs in enumerate(golden.logs(seed=20_000)):
        for topic, log in zip(Topics.of(settings).events, logs, strict=True):
            for _, timestamp_ms, key, value in log:
                producer.send(topic, value, key, None, partition, timestamp_ms)
            for key in (b"one", b"other"):
                producer.send(topic, None, key, None, partition, log[-1].timestamp + LATER_MS)
    producer.flush()
    producer.close()


@pytest.fixture
def settings(settings_for):
    times = {"wait_s": golden.WAIT_MS / 1000, "lateness_s": golden.LATENESS_MS / 1000, "future_s": 10.0}
    return settings_for(buckets=golden.BUCKETS, partitions=golden.PARTITIONS, publish_every_s=0.3, **times)


@pytest.mark.parametrize("clients", [("confluent", "confluent"), ("confluent", "kafka-python")], ids="+".join)
def test_a_golden_log_gives_the_hashes_written_down_whoever_reads_it(settings, tmp_path, clients):
    learn_golden_log(settings, tmp_path, clients)


def test_it_gives_them_however_the_topics_are_compressed(settings, tmp_path):
    client = KafkaAdminClient(**settings.kafka_options())
    topics = {getattr(Topics.of(settings), name): {"compression.type": codec} for name, codec in CODECS.items()}
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, codec) for name, codec in topics.items()])
    client.close()
    learn_golden_log(settings, tmp_path, ["kafka-python"])


def learn_golden_log(settings, tmp_path, clients):
    """Have the golden log joined by these clients, and learned; whoever was first is killed on the way."""
    jobs, parameters = Jobs(settings, tmp_path), KafkaParameters(settings)

    def hashes():
        parameters.catch_up(timeout_s=60)
        return {bucket: snapshot.sha256 for bucket, snapshot in parameters.snapshots.items()}

    try:
        workers = [jobs.start("join", "--from", "earliest", GLIMPSE_KAFKA_CLIENT=client) for client in clients]
        jobs.start("learn")
        load(settings)
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
