"""All that speaks to Kafka: clients, topics, transactions, and every workaround with its reason."""

from streams.broker.client_version import ClientVersionError
from streams.broker.clients import admin, admin_client, consumer, producer, transactional
from streams.broker.job_process import (
    GIVE_BACK_S,
    REAL_CLOCKS,
    JobClocks,
    JobMemory,
    give_memory_back,
    keep_freed_memory,
    log_of_job,
)
from streams.broker.kafka_broker import BrokerPort, KafkaWriter, TransactionWriter, open_broker
from streams.broker.kafka_consumer import GroupConsumer, GroupOffset, LogConsumer
from streams.broker.lean_records import UnreadableBatch
from streams.broker.topic_checks import check_topics, fix_topics, require_topics
from streams.broker.topics import (
    TopicsError,
    TopicState,
    catalogue_topic,
    create_topics,
    delete_topics,
    describe_topics,
    partition_of,
    stamps_of_any_time,
    topic_specs,
)
from streams.broker.workarounds import await_sent, let_go, was_fenced

__all__ = [
    "GIVE_BACK_S",
    "REAL_CLOCKS",
    "BrokerPort",
    "ClientVersionError",
    "GroupConsumer",
    "GroupOffset",
    "JobClocks",
    "JobMemory",
    "KafkaWriter",
    "LogConsumer",
    "TopicState",
    "TopicsError",
    "TransactionWriter",
    "UnreadableBatch",
    "admin",
    "admin_client",
    "await_sent",
    "catalogue_topic",
    "check_topics",
    "consumer",
    "create_topics",
    "delete_topics",
    "describe_topics",
    "fix_topics",
    "give_memory_back",
    "keep_freed_memory",
    "let_go",
    "log_of_job",
    "open_broker",
    "partition_of",
    "producer",
    "require_topics",
    "stamps_of_any_time",
    "topic_specs",
    "transactional",
    "was_fenced",
]
