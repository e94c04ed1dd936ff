"""All that speaks to Kafka: clients, topics, transactions, and every workaround with its reason."""

from streams.broker.clients import admin, admin_client, consumer, hand_out_parked, producer, transactional
from streams.broker.partitioner import partition_of
from streams.broker.topic_checks import check_topics, fix_topics, require_topics
from streams.broker.topics import Found, TopicsError, create_topics, describe_topics, topic_specs
from streams.broker.transactions import abandon, await_sent, commit_transaction, send_offsets

__all__ = [
    "Found",
    "TopicsError",
    "abandon",
    "admin",
    "admin_client",
    "await_sent",
    "check_topics",
    "commit_transaction",
    "consumer",
    "create_topics",
    "describe_topics",
    "fix_topics",
    "hand_out_parked",
    "partition_of",
    "producer",
    "require_topics",
    "send_offsets",
    "topic_specs",
    "transactional",
]
