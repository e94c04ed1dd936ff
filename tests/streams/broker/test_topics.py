"""Topics on a real broker: made as specified, and every way to have them wrong is named."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from by_hand import denied
from kafka.admin import ACLOperation, ConfigResource, ConfigResourceType, KafkaAdminClient, ResourceType
from kafka.errors import InvalidTimestampError

from streams.broker import (
    TopicsError,
    check_topics,
    create_topics,
    fix_topics,
    producer,
    require_topics,
    stamps_of_any_time,
)
from streams.broker.topic_checks import partitions, wrong_configs
from streams.settings import Topics


@pytest.fixture
def admin(kafka):
    client = KafkaAdminClient(bootstrap_servers=kafka)
    yield client
    client.close()


def names_of(settings):
    names = Topics.of(settings)
    return [getattr(names, name) for name in names.__slots__]


@pytest.mark.parametrize("timestamps", ["LogAppendTime", "CreateTime"])
def test_what_create_makes_check_accepts(settings_for, admin, timestamps):
    settings = replace(settings_for(), topic_prefix=f"made-{timestamps}-", partitions=3, timestamps=timestamps)
    create_topics(settings)
    assert soon(lambda: check_topics(settings), until=lambda found: not found) == []
    require_topics(settings)
    assert create_topics(settings) == []
    counts = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics(names_of(settings))}
    assert counts == {name: 1 if name.endswith("parameters") else 3 for name in names_of(settings)}


def soon(look, *, until):
    """A broker learns of a change from its controller a moment later."""
    deadline = time.monotonic() + 10
    while not until(seen := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


def test_creators_at_once_are_all_content(settings_for):
    settings = settings_for()
    other = replace(settings, topic_prefix=f"{settings.topic_prefix}more-")
    with ThreadPoolExecutor(3) as pool:
        made = [name for names in pool.map(create_topics, [other] * 3) for name in names]
    assert set(made) == set(names_of(other))
    assert check_topics(other) == []


def test_a_missing_topic_is_named(settings_for, admin):
    settings = settings_for()
    clicks = Topics.of(settings).clicks
    admin.delete_topics([clicks])
    problems = soon(lambda: check_topics(settings), until=bool)
    assert problems == [f"no topic {clicks}; create what is missing: glimpse topics"]
    with pytest.raises(TopicsError, match=f"no topic {clicks}"):
        require_topics(settings)


def test_a_topic_that_is_deleted_between_two_questions_is_not_one_without_rights(settings_for, admin):
    settings = settings_for()
    clicks, found = Topics.of(settings).clicks, partitions(admin, settings)
    admin.delete_topics([clicks])
    soon(lambda: partitions(admin, settings), until=lambda there: clicks not in there)
    assert wrong_configs(admin, settings, found) == []


def test_unequal_partitions_are_named(settings_for, admin):
    settings = settings_for(partitions=2)
    names = Topics.of(settings)
    admin.create_partitions({names.impressions: 5})
    [problem] = soon(lambda: check_topics(settings), until=bool)
    assert f"{names.impressions} has 5 partitions and {names.clicks} has 2" in problem
    assert f"kafka-topics.sh --alter --topic {names.clicks} --partitions 5" in problem


WRONG = {
    "snapshots deleted by age": ("parameters", "cleanup.policy", "compact,delete", "deletes snapshots"),
    "samples compacted": ("samples", "cleanup.policy", "compact", "drops all but the newest"),
    "clicks timed by their writers": (
        "clicks",
        "message.timestamp.type",
        "CreateTime",
        "but timestamps is LogAppendTime",
    ),
    "impressions kept too short": ("impressions", "retention.ms", "3600000", "less than 2 × (wait_s + lateness_s)"),
    "samples kept by size": ("samples", "retention.bytes", "1000000", "may delete events"),
    "more in sync than there are": ("parameters", "min.insync.replicas", "2", "nothing can be written"),
    "small records only": ("samples", "max.message.bytes", "65536", "less than the largest record"),
    "unclean leaders": ("samples", "unclean.leader.election.enable", "true", "may lose"),
}


@pytest.mark.parametrize("topic, key, value, why", WRONG.values(), ids=WRONG)
def test_a_wrong_config_is_named_and_fixed(settings_for, admin, topic, key, value, why):
    settings = settings_for(timestamps="LogAppendTime", partitions=1)
    name = getattr(Topics.of(settings), topic)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {key: value})])
    [problem] = soon(lambda: check_topics(settings), until=bool)
    assert problem.startswith(f"{name}: {key} is {value}")
    assert why in problem
    [change] = fix_topics(settings)
    assert change.startswith(f"{name}: {key} was {value}")
    assert soon(lambda: check_topics(settings), until=lambda found: not found) == []


def test_loaded_logs_are_kept_whatever_their_age(settings_for, admin):
    settings = settings_for(timestamps="CreateTime")
    fix_topics(settings)
    name = Topics.of(settings).impressions
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": str(10**12)})])
    [problem] = soon(lambda: check_topics(settings), until=bool)
    assert "deletes loaded events by their own age" in problem


def test_stamps_far_ahead_are_refused_but_for_a_loader(settings_for, admin):
    settings = replace(settings_for(), topic_prefix="ahead-", future_s=60)
    create_topics(settings)
    ahead_ms = int((time.time() + 3600) * 1000)

    def send():
        with producer(settings) as writer:
            writer.send(Topics.of(settings).clicks, b"", timestamp_ms=ahead_ms).get(timeout=10)

    with pytest.raises(InvalidTimestampError):
        send()
    with stamps_of_any_time(settings):
        assert "one stamp far ahead makes all that follows late" in check_topics(settings)[0]
        require_topics(settings)  # jobs may be started meanwhile
        send()
    assert check_topics(settings) == []
    with pytest.raises(InvalidTimestampError):
        send()


def test_a_right_that_is_missing_is_named(strict_broker, settings_for):
    settings = settings_for(kafka=strict_broker.bootstrap)
    name = Topics.of(settings).clicks
    with (
        denied(settings, ResourceType.TOPIC, name, ACLOperation.DESCRIBE_CONFIGS),
        pytest.raises(TopicsError, match=f"config of {name} is not told: grant the right DESCRIBE_CONFIGS"),
    ):
        require_topics(settings)


def test_too_few_replicas_are_named(settings_for):
    settings = settings_for()
    problems = check_topics(replace(settings, replication=3, min_insync=2))
    for name in names_of(settings):
        assert f"{name} has 1 replicas and replication is 3" in " ".join(problems)
        assert f"{name}: fewer than 2 replicas of partitions" in " ".join(problems)


def test_more_replicas_than_brokers_cannot_be_made(settings_for):
    settings = replace(settings_for(), topic_prefix="never-made-", replication=3)
    with pytest.raises(TopicsError, match=r"cannot create never-made-impressions.*replication factor"):
        create_topics(settings)


def test_a_broker_without_transactions_is_named(new_broker, settings_for):
    broker = new_broker({"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"})
    [problem] = check_topics(settings_for(kafka=broker.bootstrap))
    assert problem.startswith("no transactions: ")
    assert "transaction.state.log.replication.factor" in problem
