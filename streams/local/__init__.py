"""This machine: a Kafka and a Redis for development and tests, and processes that share its cores."""

from streams.local.kafka import LocalKafka
from streams.local.processes import end_with_parent, one_thread_each
from streams.local.redis import LocalRedis
from streams.local.server import free_port
from streams.local.up import Addresses, compose, start_servers, stop_servers

__all__ = [
    "Addresses",
    "LocalKafka",
    "LocalRedis",
    "compose",
    "end_with_parent",
    "free_port",
    "one_thread_each",
    "start_servers",
    "stop_servers",
]
