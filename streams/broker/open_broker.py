"""The client that settings name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from streams.broker.kafka_broker import KafkaBroker
from streams.broker.port import BrokerPort, GroupConsumer, TransactionWriter
from streams.settings import Settings, SettingsError


def open_broker(settings: Settings) -> BrokerPort:
    """Return the broker behind the client that ``settings`` name; members of a group may use different ones."""
    there = find_spec("confluent_kafka") is not None
    if settings.kafka_client == "kafka-python" or (settings.kafka_client == "auto" and not there):
        return KafkaBroker(settings)
    if not there:
        raise SettingsError("kafka_client", settings.kafka_client, "needs pip install '.[fast]', in Glimpse's folder")
    return ConfluentBroker(settings)


class ConfluentBroker(KafkaBroker):
    """The broker that settings name, with the flow of events through confluent-kafka, which is an extra."""

    def group_consumer(self, group: str, topics: Sequence[str]) -> GroupConsumer:
        """Return a new member of ``group``."""
        made = import_module("streams.broker.confluent_consumer").ConfluentGroupConsumer
        found: GroupConsumer = made(self._settings, self._settings.topic_prefix + group, topics)
        return found

    def writer(self, name: str, *, patience_ms: int) -> TransactionWriter:
        """Return a writer that has fenced any older one of this name, and ended what that had begun."""
        made = import_module("streams.broker.confluent_writer").ConfluentWriter
        found: TransactionWriter = made(self._settings, name, patience_ms=patience_ms)
        return found
