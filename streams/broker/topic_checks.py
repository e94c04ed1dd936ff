"""What is wrong with the topics of a deployment, and how to set it right."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError

from streams.broker.clients import admin, transactional
from streams.broker.topics import AFTER_MAX, DESCRIBE_MS, FOREVER, RECORD_BYTES, Topic, TopicsError, topic_specs
from streams.broker.workarounds import describe_within
from streams.settings import Settings, Topics


def require_topics(settings: Settings) -> None:
    """Raise a TopicsError of one line unless the jobs can work on the topics."""
    problems = check_topics(settings, ignoring={AFTER_MAX})  # open while somebody loads events
    if problems:
        raise TopicsError("; ".join(problems))


def check_topics(settings: Settings, *, ignoring: Collection[str] = ()) -> list[str]:
    """Return what is wrong with the topics and how to fix it, one line each, but for the config keys to ignore."""
    with admin(settings) as client:
        topics = partitions(client, settings)
        missing = [topic.name for topic in topic_specs(settings) if topic.name not in topics]
        problems = [f"no topic {', '.join(missing)}; create what is missing: glimpse topics"] if missing else []
        if not missing:
            problems += partition_faults(settings, topics)
        problems += [
            f"{name}: {key} is {value}, {why}; set it to {wanted}: glimpse topics --fix"
            for name, key, value, wanted, why in wrong_configs(client, settings, topics)
            if key not in ignoring
        ]
    return problems + transaction_faults(settings)


def fix_topics(settings: Settings) -> list[str]:
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
    described = describe_within(client, [topic.name for topic in topic_specs(settings)], within_ms=DESCRIBE_MS)
    return {topic["name"]: topic["partitions"] for topic in described if topic["error_code"] == 0}


def partition_faults(settings: Settings, described: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return what is wrong with the partitions' number, their copies and which of these are in sync."""
    names = Topics.of(settings)
    faults = []
    shown, clicked = len(described[names.impressions]), len(described[names.clicks])
    if shown != clicked:
        fewer = names.impressions if shown < clicked else names.clicks
        faults.append(
            f"{names.impressions} has {shown} partitions and {names.clicks} has {clicked}, but a session's events must "
            f"meet in the same one; stop the writers, let join finish, then: "
            f"kafka-topics.sh --alter --topic {fewer} --partitions {max(shown, clicked)}"
        )
    if len(described[names.parameters]) != 1:
        faults.append(
            f"{names.parameters} has {len(described[names.parameters])} partitions; delete it and make it with 1"
        )
    for name, parts in described.items():
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
    client: KafkaAdminClient, settings: Settings, described: Mapping[str, list[dict[str, Any]]]
) -> list[tuple[str, str, str, str, str]]:
    """Return (topic, key, value, value to have, why) for every config that would lose or spoil something."""
    topics = [topic for topic in topic_specs(settings) if topic.name in described]
    if not topics:
        return []
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    configs = client.describe_configs(asked, config_filter="all").get("topic", {})
    untold = {topic.name for topic in topics if not configs.get(topic.name)}
    kept = sorted(untold & partitions(client, settings).keys()) if untold else []  # others were deleted meanwhile
    if kept:
        raise TopicsError(f"the config of {', '.join(kept)} is not told: grant the right DESCRIBE_CONFIGS on them")
    wrong = []
    for topic in (topic for topic in topics if topic.name not in untold):
        config = {key: str(entry["value"]) for key, entry in configs[topic.name].items()}
        copies = min(len(part["replica_nodes"]) for part in described[topic.name])
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
    elif timed and AFTER_MAX in topic.config and int(config[AFTER_MAX]) > int(topic.config[AFTER_MAX]):
        yield AFTER_MAX, topic.config[AFTER_MAX], "so that one stamp far ahead makes all that follows late"
    if topic.keep_s:
        kept_ms, least_ms = int(config["retention.ms"]), int(topic.keep_s * 1000)
        if settings.timestamps == "CreateTime" and kept_ms != -1:
            yield "retention.ms", FOREVER, "which deletes loaded events by their own age"
        elif kept_ms != -1 and kept_ms < least_ms:
            parts = "2 × (wait_s + lateness_s) + future_s + downtime_s"
            yield "retention.ms", topic.config["retention.ms"], f"less than {parts} ({least_ms})"
        if config["retention.bytes"] != FOREVER:
            yield "retention.bytes", FOREVER, "which may delete events that are still needed"
    in_sync = int(config["min.insync.replicas"])
    if in_sync < settings.min_insync:
        yield "min.insync.replicas", str(settings.min_insync), f"but min_insync is {settings.min_insync}"
    elif in_sync > copies:
        why = f"more than its {copies} replicas: nothing can be written"
        yield "min.insync.replicas", str(settings.min_insync), why
    if int(config["max.message.bytes"]) < RECORD_BYTES:
        yield "max.message.bytes", topic.config["max.message.bytes"], f"less than the largest record ({RECORD_BYTES})"
    if config["unclean.leader.election.enable"] != "false":
        yield "unclean.leader.election.enable", "false", "which may lose what was acknowledged"


def transaction_faults(settings: Settings) -> list[str]:
    """Try to begin to write in transactions, and return what went wrong."""
    try:
        checker = transactional(settings, "glimpse-check", max_block_ms=5_000)
    except KafkaError as error:
        return [f"no transactions: {error}"]
    try:
        checker.init_transactions()
    except KafkaError as error:
        return [
            f"no transactions: {error or type(error).__name__}; the brokers need "
            "transaction.state.log.replication.factor and transaction.state.log.min.isr of at most their number, "
            "and the user the right to the transactional id"
        ]
    finally:
        checker.close(timeout=1)
    return []
