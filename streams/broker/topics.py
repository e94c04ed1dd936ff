"""The topics of a deployment: the record, key, partitions, config and retention of each, and their creation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import AuthorizationError, TopicAlreadyExistsError, for_code
from kafka.partitioner.default import murmur2

from streams.broker.clients import admin
from streams.broker.workarounds import describe_within
from streams.settings import Settings, Topics

log = logging.getLogger(__name__)

WEEK_S = 7 * 86_400
DESCRIBE_MS = 10_000  # for an answer
RECORD_BYTES = 1_000_000  # the largest record that any stage writes, with room for its headers
FOREVER = "-1"
AFTER_MAX, ANY_TIME = "message.timestamp.after.max.ms", str(2**63 - 1)  # how far ahead a stamp may be, and no limit

COMPACTED = {
    "cleanup.policy": "compact",
    # the newest segment is never compacted and every new reader reads all of it, so it stays small and young
    "segment.bytes": str(16 << 20),
    "segment.ms": "600000",
    "max.compaction.lag.ms": "600000",
    "min.cleanable.dirty.ratio": "0.2",
}


class TopicsError(RuntimeError):
    """Topics that the jobs cannot work on, with what is wrong and how to fix it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: what travels on it, by which key, and what the broker must be told about it."""

    name: str
    record: str
    key: str
    partitions: int
    config: Mapping[str, str]
    keep_s: float = 0.0  # what must be kept at least


class TopicState(NamedTuple):
    """A topic as the broker describes it."""

    topic_id: str
    partitions: int
    readable: bool
    leaderless: frozenset[int] = frozenset()  # partitions that nobody serves just now


def describe_topics(client: KafkaAdminClient, names: Iterable[str]) -> dict[str, TopicState]:
    """Return the topics that are there; of one whose description is refused only that it must not be read."""
    states = {}
    for topic in describe_within(client, list(names), within_ms=DESCRIBE_MS):
        allowed = topic.get("authorized_operations")  # old brokers do not tell
        if topic["error_code"] and issubclass(for_code(topic["error_code"]), AuthorizationError):
            states[topic["name"]] = TopicState("", 0, readable=False)
        elif topic["partitions"]:
            readable = allowed is None or "READ" in allowed
            dark = frozenset(part["partition_index"] for part in topic["partitions"] if part["leader_id"] < 0)
            states[topic["name"]] = TopicState(str(topic["topic_id"]), len(topic["partitions"]), readable, dark)
    return states


def topic_specs(settings: Settings) -> list[Topic]:
    """Return every topic as ``settings`` wants it."""
    names = Topics.of(settings)
    # A restarted join reads back to the lists that its clicks may be for, and to whatever held the ids of those lists.
    events_s = 3 * settings.horizon_s + settings.future_s + settings.downtime_s
    samples_s = max(settings.samples_retention_s, events_s)

    def log(name: str, record: str, key: str, keep_s: float, kept_s: float, *, written_live: bool = False) -> Topic:
        loaded = settings.timestamps == "CreateTime"  # then a record's age says nothing about how long it lies here
        config = {
            "cleanup.policy": "delete",
            "message.timestamp.type": settings.timestamps,
            "retention.ms": FOREVER if loaded else str(int(kept_s * 1000)),
            "retention.bytes": FOREVER,
        }
        if loaded:
            config[AFTER_MAX] = str(int(settings.future_s * 1000)) if written_live else ANY_TIME
        return Topic(name, record, key, settings.partitions, common | config, keep_s)

    common = {"min.insync.replicas": str(settings.min_insync), "max.message.bytes": "1048588"}
    return [
        log(names.impressions, "Impression", "session id", events_s, max(WEEK_S, events_s), written_live=True),
        log(names.clicks, "Click", "session id", events_s, max(WEEK_S, events_s), written_live=True),
        log(names.samples, "SampleBatch", "bucket", events_s, samples_s),
        Topic(names.parameters, "Snapshot, Progress", "bucket, @samples-<p>", 1, common | COMPACTED),
        log(names.dead_letters, "DeadLetter", "source", 0, WEEK_S * 4),
        log(names.late_clicks, "Click", "session id", 0, WEEK_S * 4),
    ]


def catalogue_topic(settings: Settings) -> Topic:
    """Return the topic of the ranking service's catalogue, which only those have who publish one."""
    config = COMPACTED | {"min.insync.replicas": str(settings.min_insync)}
    return Topic(settings.topic_prefix + "catalogue", "JSON lines", "item <id>, user <id>, recipe", 1, config)


def create_topics(settings: Settings, topics: Iterable[Topic] | None = None) -> list[str]:
    """Create the topics that are missing, leave the others as they are, and return the names of the new ones.

    Without ``topics`` they are those that the jobs need.
    """
    with admin(settings) as client:
        there, copies = set(client.list_topics()), settings.replication
        wanted = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": copies,
                "configs": dict(topic.config),
            }
            for topic in (topic_specs(settings) if topics is None else topics)
            if topic.name not in there
        }
        if not wanted:
            return []
        for topic in client.create_topics(wanted, raise_errors=False)["topics"]:
            error = for_code(topic["error_code"])
            if topic["error_code"] and error is not TopicAlreadyExistsError:  # another creator may be as fast
                raise TopicsError(f"cannot create {topic['name']}: {error.__name__}: {topic['error_message']}")
        client.wait_for_topics(list(wanted))
        return list(wanted)


def delete_topics(settings: Settings) -> None:
    """Delete every topic whose name begins with the prefix of ``settings``; without a prefix none, since all would."""
    with admin(settings) as client:
        prefix = settings.topic_prefix
        ours = [name for name in client.list_topics() if prefix and name.startswith(prefix)]
        if ours:
            client.delete_topics(ours)


@contextmanager
def stamps_of_any_time(settings: Settings) -> Iterator[None]:
    """Let events of any time be loaded: stamps far ahead are refused by live topics, as one could end a partition.

    Without the right to change a topic's config, what the broker takes is loaded.
    """
    names = Topics.of(settings).events if settings.timestamps == "CreateTime" else ()
    closed = {topic.name: topic.config[AFTER_MAX] for topic in topic_specs(settings) if topic.name in names}
    try:
        _set_stamps(settings, dict.fromkeys(closed, ANY_TIME))
    except AuthorizationError as error:
        log.warning("stamps far ahead will be refused: no right ALTER_CONFIGS on %s (%s)", ", ".join(names), error)
        closed = {}
    try:
        yield
    finally:
        _set_stamps(settings, closed)


def _set_stamps(settings: Settings, limits: Mapping[str, str]) -> None:
    if not limits:
        return
    with admin(settings) as client:
        kind = ConfigResourceType.TOPIC
        client.alter_configs([ConfigResource(kind, name, {AFTER_MAX: limit}) for name, limit in limits.items()])
        give_up_at = time.monotonic() + 5  # a broker hears of it from its controller a moment later
        while time.monotonic() < give_up_at:
            topics = client.describe_configs([ConfigResource(kind, name) for name in limits])["topic"]
            if all(topics[name].get(AFTER_MAX, {}).get("value") == limit for name, limit in limits.items()):
                return
            time.sleep(0.05)


def partition_of(key: str | bytes, partitions: int) -> int:
    """Return the partition of a key, such as a bucket's name in samples: where Kafka's default partitioner puts it.

    >>> [partition_of(name, 4) for name in ("ubm", "c2ucb", "pbm")]
    [0, 2, 1]
    """
    return int((murmur2(key.encode() if isinstance(key, str) else key) & 0x7FFFFFFF) % partitions)
