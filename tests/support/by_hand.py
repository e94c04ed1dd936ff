"""What tests do to a broker by hand: write, commit, and take rights away."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import astuple

from jobs import wait_until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern
from kafka.structs import OffsetAndMetadata

from streams.broker import admin
from streams.join import Commit
from streams.join.commit import LogPart, LogPosition
from streams.lag import Window
from streams.lag.job import LagReader
from streams.lag.report import PartitionLag
from streams.settings import LogPair, Topics

SHORT = Window(span_s=1.0, commits=4)


def write(settings, topic, values, *, timestamps=None, key=None, transaction=None, end="commit"):
    """Write values to partition 0; in a transaction if it is given a name, which may be left open."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka, transactional_id=transaction)
    if transaction:
        producer.init_transactions()
        producer.begin_transaction()
    for number, value in enumerate(values):
        stamp = None if timestamps is None else timestamps[number]
        producer.send(topic, value, key=key, partition=0, timestamp_ms=stamp)
    producer.flush(10)
    if transaction:
        {"commit": producer.commit_transaction, "abort": producer.abort_transaction, "open": lambda: None}[end]()
    if end != "open":
        producer.close(5)
    return producer


def commit(settings, group, topic, offset, metadata="") -> None:
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka, group_id=group, enable_auto_commit=False)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(offset, metadata, -1)})
    consumer.close()


def join_commit(settings, *, position, place=None) -> None:
    """Commit for the join on the impressions: read again from ``place`` (the beginning), processed to ``position``."""
    names = Topics.of(settings)
    with admin(settings) as client:
        described = {topic["name"]: str(topic["topic_id"]) for topic in client.describe_topics([*astuple(names)[:2]])}
    ids = LogPair(described[names.impressions], described[names.clicks])
    (offset, metadata), _ = Commit(
        LogPart(place or LogPosition(0, 0, 0), position, 0, []), LogPart.beginning(0)
    ).encode(ids)
    commit(settings, settings.topic_prefix + "glimpse-join", names.impressions, offset, metadata)


def lag_of(reader: LagReader, name: str, topic: str) -> PartitionLag:
    [group] = [one for one in reader.read().groups if one.name == name]
    [found] = [one for one in group.partitions if (one.topic, one.partition) == (topic, 0)]
    return found


@contextmanager
def denied(settings, kind, name, operation):
    """Take one right away, leave the others, and give it back."""
    place = ResourcePattern(kind, name)  # without the first rule, the second one would take all rights away
    rules = [
        ACL("User:ANONYMOUS", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, place),
        ACL("User:ANONYMOUS", "*", operation, ACLPermissionType.DENY, place),
    ]
    with admin(settings) as client:

        def heard(count: int) -> bool:  # rules come to the controller first; the broker tells those that it goes by
            return all(len(client.describe_acls(rule)[0]) == count for rule in rules)

        client.create_acls(rules)
        wait_until(lambda: heard(1), timeout_s=60)
        try:
            yield
        finally:
            client.delete_acls(rules)
            wait_until(lambda: heard(0), timeout_s=60)
