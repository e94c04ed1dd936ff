"""What librdkafka says between records: once each, so that nothing of it may be passed over."""

import inspect
import re
from contextlib import closing
from types import SimpleNamespace

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import KafkaError as ConfluentError
from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from streams.broker import confluent_broker
from streams.broker.clients import consumer as kafka_python_consumer
from streams.broker.confluent_broker import ConfluentGroupConsumer, client_options, confluent_partition
from streams.settings import Topics

PLACES = [TopicPartition("impressions", number) for number in range(3)]


def said(place, code, offset):
    error = SimpleNamespace(code=lambda: code, name=lambda: "", str=lambda: "")
    return SimpleNamespace(
        topic=lambda: place.topic, partition=lambda: place.partition, error=lambda: error, offset=lambda: offset
    )


def test_every_partition_that_has_lost_records_is_named_and_every_end_is_noted():
    consumer = object.__new__(ConfluentGroupConsumer)
    consumer._assigned, consumer._next = {place: place for place in PLACES}, dict.fromkeys(PLACES, 5)
    consumer._ends, consumer._parked, consumer._paused = {}, {}, set()
    first, second, third = PLACES
    with pytest.raises(OffsetOutOfRangeError) as error:
        consumer._taken(
            [
                said(first, ConfluentError._AUTO_OFFSET_RESET, 5),
                said(second, ConfluentError._LOG_TRUNCATION, 5),
                said(third, ConfluentError._PARTITION_EOF, 7),
            ]
        )
    assert error.value.args[0] == {first: 5, second: 5}
    assert consumer._taken([]) == {}
    assert consumer._next == {first: 5, second: 5, third: 7}


def test_a_paused_partition_is_fetched_no_more_when_many_bytes_are_parked():
    place, stopped = PLACES[0], []
    consumer = object.__new__(ConfluentGroupConsumer)
    consumer._assigned, consumer._next, consumer._sought = {place: place}, {place: 0}, False
    consumer._ends, consumer._parked, consumer._paused, consumer._stopped = {}, {}, {place}, set()
    large = SimpleNamespace(
        topic=lambda: place.topic, partition=lambda: 0, error=lambda: None, offset=lambda: 0, key=lambda: b"",
        timestamp=lambda: (1, 0), value=lambda: bytes(1 << 20),
    )  # fmt: skip
    consumer._member_of = SimpleNamespace(
        consume=lambda most, within_s: [] if stopped else [large] * 10, pause=stopped.append
    )
    for _ in range(100):
        consumer.poll(0)
    assert stopped
    assert len(consumer._parked[place]) <= 20


def test_every_workaround_names_the_version_that_is_installed():
    named = re.findall(r"confluent-kafka (\d+\.\d+\.\d+)", inspect.getsource(confluent_broker))
    assert set(named) == {confluent_kafka.__version__}


@pytest.fixture
def member(settings_for):
    """Settings, a log, and a consumer of the library in the group of these."""
    settings = settings_for(partitions=1)
    member = Consumer(client_options(settings) | {"group.id": f"{settings.topic_prefix}group"})
    yield settings, TopicPartition(Topics.of(settings).impressions, 0), member
    member.close()


def test_the_library_refuses_to_seek_where_it_has_not_begun_to_fetch(member):
    _, log, own = member
    own.assign([confluent_partition(log)])
    with pytest.raises(KafkaException) as error:
        own.seek(confluent_partition(log, 0))
    assert error.value.args[0].code() == ConfluentError._STATE


def test_the_library_ends_the_metadata_of_a_commit_with_a_zero(member):
    settings, log, own = member
    own.commit(offsets=[confluent_partition(log, 0, "text")], asynchronous=False)
    with closing(kafka_python_consumer(settings, group_id=f"{settings.topic_prefix}group")) as reader:
        assert reader.committed(log, metadata=True).metadata == "text\0"
