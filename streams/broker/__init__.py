"""All that speaks to Kafka: clients, topics, transactions, and every workaround with its reason."""

from streams.broker.clients import admin, admin_client, consumer, producer, transactional
from streams.broker.job_log import log_of_job
from streams.broker.job_memory import GIVE_BACK_S, JobMemory, give_memory_back, keep_freed_memory
from streams.broker.kafka_broker import KafkaBroker, KafkaWriter, await_sent, was_fenced
from streams.broker.open_broker import ConfluentBroker, open_broker
from streams.broker.port import (
    REAL_CLOCKS,
    BrokerPort,
    GroupConsumer,
    GroupOffset,
    JobClocks,
    LogConsumer,
    TransactionWriter,
)
from streams.broker.topic_checks import check_topics, fix_topics, require_topics
from streams.broker.topics import (
    Found,
    TopicsError,
    catalogue_topic,
    create_topics,
    delete_topics,
    describe_topics,
    partition_of,
    stamps_of_any_time,
    topic_specs,
)
from streams.broker.unreadable import UnreadableBatch

__all__ = [
    "GIVE_BACK_S",
    "REAL_CLOCKS",
    "BrokerPort",
    "ConfluentBroker",
    "Found",
    "GroupConsumer",
    "GroupOffset",
    "JobClocks",
    "JobMemory",
    "KafkaBroker",
    "KafkaWriter",
    "LogConsumer",
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
