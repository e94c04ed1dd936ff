"""What confluent-kafka is told in its own words: where the broker is, how to be let in, and whose errors it raises."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaException
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import TopicPartition as ConfluentPlace
from kafka import TopicPartition
from kafka.errors import (
    FencedInstanceIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    SaslAuthenticationFailedError,
    for_code,
)

from streams.settings import Settings

_FENCED = (ConfluentError._FENCED, ConfluentError.INVALID_PRODUCER_EPOCH, ConfluentError.PRODUCER_FENCED)
_OF_ITS_OWN = {  # errors that no broker has sent, which kafka-python knows by other names
    ConfluentError._TIMED_OUT: KafkaTimeoutError,
    ConfluentError._MSG_TIMED_OUT: KafkaTimeoutError,
    ConfluentError._TIMED_OUT_QUEUE: KafkaTimeoutError,
    ConfluentError._TRANSPORT: KafkaConnectionError,
    ConfluentError._ALL_BROKERS_DOWN: KafkaConnectionError,
    ConfluentError._AUTHENTICATION: SaslAuthenticationFailedError,
    ConfluentError._FATAL: FencedInstanceIdError,  # of a consumer, which has no other fatal error
}


def client_options(settings: Settings) -> dict[str, Any]:
    """Return what every client of confluent-kafka must be given."""
    given = {
        "bootstrap.servers": settings.kafka,
        "security.protocol": settings.kafka_security,
        "reconnect.backoff.max.ms": 1_000,  # a broker that is back should not be left alone for 10 s more
        "logger": logging.getLogger("confluent_kafka"),
    }
    if "SASL" in settings.kafka_security:
        given["sasl.mechanism"] = settings.kafka_sasl
        given["sasl.username"] = settings.kafka_username
        given["sasl.password"] = settings.kafka_password
    files = {
        "ssl.ca.location": settings.kafka_ca,
        "ssl.certificate.location": settings.kafka_cert,
        "ssl.key.location": settings.kafka_key,
        "ssl.key.password": settings.kafka_key_password,
    }
    return given | {key: value for key, value in files.items() if value is not None}


def confluent_place(place: TopicPartition, offset: int = OFFSET_INVALID, metadata: str = "") -> ConfluentPlace:
    """Return a partition as confluent-kafka is told it."""
    return ConfluentPlace(place.topic, place.partition, offset, metadata)


@contextmanager
def errors_of_the_port() -> Iterator[None]:
    """Raise what confluent-kafka raises as the error of kafka-python that the jobs know."""
    try:
        yield
    except KafkaException as error:
        raise as_port_error(error.args[0]) from error


def as_port_error(error: Any) -> KafkaError:
    """Return the error of kafka-python that says the same."""
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code in _FENCED:
        return ProducerFencedError(words)
    if code > 0:  # a number of the protocol
        return for_code(code)(words)
    return _OF_ITS_OWN.get(code, KafkaError)(words)
