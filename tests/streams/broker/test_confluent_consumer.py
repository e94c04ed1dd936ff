"""What librdkafka says between records: once each, so that nothing of it may be passed over."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError as ConfluentError
from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from streams.broker.confluent_consumer import ConfluentGroupConsumer

PLACES = [TopicPartition("impressions", number) for number in range(3)]


def said(place, code, offset):
    error = SimpleNamespace(code=lambda: code, name=lambda: "", str=lambda: "")
    return SimpleNamespace(
        topic=lambda: place.topic, partition=lambda: place.partition, error=lambda: error, offset=lambda: offset
    )


def test_every_partition_that_has_lost_records_is_named_and_every_end_is_noted():
    consumer = object.__new__(ConfluentGroupConsumer)
    consumer._places, consumer._next = {place: place for place in PLACES}, dict.fromkeys(PLACES, 5)
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
    consumer._places, consumer._next, consumer._sought = {place: place}, {place: 0}, False
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
