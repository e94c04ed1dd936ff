"""Settings in, topics out: every topic with its record and its config, made and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import AuthorizationError, KafkaError, TopicAlreadyExistsError, for_code

from streams.broker.clients import admin
from streams.settings.settings import Settings
from streams.settings.topics import Topics

WEEK_S = 7 * 86_400
RECORD_BYTES = 1_000_000  # the largest record that any stage writes, with room for its headers
FOREVER = "-1"


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


class Found(NamedTuple):
    """A topic as the broker describes it."""

    topic_id: str
    partitions: int
    readable: bool
    leaderless: frozenset[int] = frozenset()  # partitions that nobody serves just now


def described(client: KafkaAdminClient, names: Iterable[str]) -> dict[str, Found]:
    """Return the topics that are there; of one whose description is refused only that it must not be read."""
    found = {}
    for topic in client.describe_topics(list(names)):
        allowed = topic.get("authorized_operations")  # old brokers do not tell
        if topic["error_code"] and issubclass(for_code(topic["error_code"]), AuthorizationError):
            found[topic["name"]] = Found("", 0, readable=False)
        elif topic["partitions"]:
            readable = allowed is None or "READ" in allowed
            dark = frozenset(part["partition_index"] for part in topic["partitions"] if part["leader_id"] < 0)
            found[topic["name"]] = Found(str(topic["topic_id"]), len(topic["partitions"]), readable, dark)
    return found


def specs(settings: Settings) -> list[Topic]:
    """Return every topic as ``settings`` wants it."""
    names = Topics.of(settings)
    # a restarted join reads two horizons back: a list one horizon older may explain a click that is still in range
    events_s = 2 * settings.horizon_s + settings.future_s + settings.downtime_s
    samples_s = max(settings.samples_retention_s, events_s)

    def log(name: str, record: str, key: str, keep_s: float, kept_s: float) -> Topic:
        loaded = settings.timestamps == "CreateTime"  # then a record's age says nothing about how long it lies here
        config = {
            "cleanup.policy": "delete",
            "message.timestamp.type": settings.timestamps,
            "retention.ms": FOREVER if loaded else str(int(kept_s * 1000)),
            "retention.bytes": FOREVER,
        }
        if loaded:
            config["message.timestamp.after.max.ms"] = str(2**63 - 1)
        return Topic(name, record, key, settings.partitions, common | config, keep_s)

    common = {"min.insync.replicas": str(settings.min_insync), "max.message.bytes": "1048588"}
    compacted = {
        "cleanup.policy": "compact",
        # the newest segment is never compacted and every new reader reads all of it, so it stays small and young
        "segment.bytes": str(16 << 20),
        "segment.ms": "600000",
        "max.compaction.lag.ms": "600000",
        "min.cleanable.dirty.ratio": "0.2",
    }
    return [
        log(names.impressions, "Impression", "session id", events_s, max(WEEK_S, events_s)),
        log(names.clicks, "Click", "session id", events_s, max(WEEK_S, events_s)),
        log(names.samples, "SampleBatch", "bucket", events_s, samples_s),
        Topic(names.parameters, "Snapshot, Progress", "bucket, @samples-<p>", 1, common | compacted),
        log(names.dead_letters, "DeadLetter", "source", 0, WEEK_S * 4),
        log(names.late_clicks, "Click", "session id", 0, WEEK_S * 4),
    ]


def create(settings: Settings) -> list[str]:
    """Create the topics that are missing, leave the others as they are, and return the names of the new ones."""
    with admin(settings) as client:
        there = set(client.list_topics())
        missing = [topic for topic in specs(settings) if topic.name not in there]
        if not missing:
            return []
        wanted = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": settings.replication,
                "configs": dict(topic.config),
            }
            for topic in missing
        }
        for topic in client.create_topics(wanted, raise_errors=False)["topics"]:
            error = for_code(topic["error_code"])
            if topic["error_code"] and error is not TopicAlreadyExistsError:  # another creator may be as fast
                raise TopicsError(f"cannot create {topic['name']}: {error.__name__}: {topic['error_message']}")
        client.wait_for_topics(list(wanted))
        return list(wanted)


def check(settings: Settings) -> list[str]:
    """Return what is wrong with the topics and how to fix it, one line each; nothing when the jobs can work."""
    with admin(settings) as client:
        found = partitions(client, settings)
        missing = [topic.name for topic in specs(settings) if topic.name not in found]
        problems = [f"no topic {', '.join(missing)}; create what is missing: glimpse topics"] if missing else []
        if not missing:
            problems += partition_faults(settings, found)
        problems += [
            f"{name}: {key} is {value}, {why}; set it to {wanted}: glimpse topics --fix"
            for name, key, value, wanted, why in wrong_configs(client, settings, found)
        ]
    return problems + transaction_faults(settings)


def require(settings: Settings) -> None:
    """Raise a TopicsError of one line unless the jobs can work on the topics."""
    problems = check(settings)
    if problems:
        raise TopicsError("; ".join(problems))


def fix(settings: Settings) -> list[str]:
    """Give the topics that are there the config that they should have, and return what was changed."""
    with admin(settings) as client:
        wrong = wrong_configs(client, settings, partitions(client, settings))
        changes: dict[str, dict[str, str]] = {}
        for name, key, _, wanted, _ in wrong:
            changes.setdefault(name, {})[key] = wanted
        if changes:
            client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, new) for name, new in changes.items()])
    return [f"{name}: {key} was {value}, is {wanted} now" for name, key, value, wanted, _ in wrong]


def partitions(client: KafkaAdminClient, settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """Return the partitions of those of our topics that are there."""
    described = client.describe_topics([topic.name for topic in specs(settings)])
    return {topic["name"]: topic["partitions"] for topic in described if topic["error_code"] == 0}


def partition_faults(settings: Settings, found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return what is wrong with the partitions' number, their copies and which of these are in sync."""
    names = Topics.of(settings)
    faults = []
    shown, clicked = len(found[names.impressions]), len(found[names.clicks])
    if shown != clicked:
        fewer = names.impressions if shown < clicked else names.clicks
        faults.append(
            f"{names.impressions} has {shown} partitions and {names.clicks} has {clicked}, but a session's events must "
            f"meet in the same one; stop the writers, let join finish, then: "
            f"kafka-topics.sh --alter --topic {fewer} --partitions {max(shown, clicked)}"
        )
    if len(found[names.parameters]) != 1:
        faults.append(f"{names.parameters} has {len(found[names.parameters])} partitions; delete it and make it with 1")
    for name, parts in found.items():
        copies = min(len(part["replica_nodes"]) for part in parts)
        if copies < settings.replication:
            faults.append(
                f"{name} has {copies} replicas and replication is {settings.replication}; "
                f"add some with kafka-reassign-partitions.sh, or set replication = {copies}"
            )
        behind = [part["partition_index"] for part in parts if len(part["isr_nodes"]) < settings.min_insync]
        if behind:
            faults.append(f"{name}: fewer than {settings.min_insync} replicas of partitions {behind} are in sync")
    return faults


def wrong_configs(
    client: KafkaAdminClient, settings: Settings, found: Mapping[str, list[dict[str, Any]]]
) -> list[tuple[str, str, str, str, str]]:
    """Return (topic, key, value, value to have, why) for every config that would lose or spoil something."""
    topics = [topic for topic in specs(settings) if topic.name in found]
    if not topics:
        return []
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    configs = client.describe_configs(asked, config_filter="all")["topic"]
    wrong = []
    for topic in topics:
        config = {key: str(entry["value"]) for key, entry in configs[topic.name].items()}
        copies = min(len(part["replica_nodes"]) for part in found[topic.name])
        for key, wanted, why in config_faults(topic, config, settings, copies=copies):
            wrong.append((topic.name, key, config[key], wanted, why))
    return wrong


def config_faults(
    topic: Topic, config: Mapping[str, str], settings: Settings, *, copies: int
) -> Iterator[tuple[str, str, str]]:
    """Yield (key, value to have, why) for what is wrong with one topic's config."""
    if config["cleanup.policy"] != topic.config["cleanup.policy"]:
        compact = topic.config["cleanup.policy"] == "compact"
        why = "which deletes snapshots that are still in use" if compact else "which drops all but the newest of a key"
        yield "cleanup.policy", topic.config["cleanup.policy"], why
    timed = topic.record in ("Impression", "Click") and topic.keep_s  # their clocks decide what is late
    if timed and config["message.timestamp.type"] != settings.timestamps:
        yield "message.timestamp.type", settings.timestamps, f"but timestamps is {settings.timestamps}"
    if topic.keep_s:
        kept_ms, least_ms = int(config["retention.ms"]), int(topic.keep_s * 1000)
        if settings.timestamps == "CreateTime" and kept_ms != -1:
            yield "retention.ms", FOREVER, "which deletes loaded events by their own age"
        elif kept_ms != -1 and kept_ms < least_ms:
            parts = "wait_s + lateness_s + future_s + downtime_s"
            yield "retention.ms", topic.config["retention.ms"], f"less than {parts} ({least_ms})"
        if config["retention.bytes"] != FOREVER:
            yield "retention.bytes", FOREVER, "which may delete events that are still needed"
    in_sync = int(config["min.insync.replicas"])
    if in_sync < settings.min_insync:
        yield "min.insync.replicas", str(settings.min_insync), f"but min_insync is {settings.min_insync}"
    elif in_sync > copies:
        yield (
            "min.insync.replicas",
            str(settings.min_insync),
            f"more than its {copies} replicas: nothing can be written",
        )
    if int(config["max.message.bytes"]) < RECORD_BYTES:
        yield "max.message.bytes", topic.config["max.message.bytes"], f"less than the largest record ({RECORD_BYTES})"
    if config["unclean.leader.election.enable"] != "false":
        yield "unclean.leader.election.enable", "false", "which may lose what was acknowledged"


def transaction_faults(settings: Settings) -> list[str]:
    """Try to begin to write in transactions, and return what went wrong."""
    try:
        producer = KafkaProducer(
            **settings.kafka_client(), transactional_id=f"{settings.topic_prefix}glimpse-check", max_block_ms=5_000
        )
    except KafkaError as error:
        return [f"no transactions: {error}"]
    try:
        producer.init_transactions()
    except KafkaError as error:
        return [
            f"no transactions: {error or type(error).__name__}; the brokers need "
            "transaction.state.log.replication.factor and transaction.state.log.min.isr of at most their number, "
            "and the user the right to the transactional id"
        ]
    finally:
        producer.close(timeout=1)
    return []
