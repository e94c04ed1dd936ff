"""This machine: a Kafka and a Redis for development and tests, and processes that share its cores."""

from streams.local.kafka import LocalKafka
from streams.local.processes import end_processes, end_with_parent, one_thread_each, supervise
from streams.local.server import LocalRedis, free_port
from streams.local.up import compose, exports, start_servers, stop_servers

__all__ = [
    "LocalKafka",
    "LocalRedis",
    "compose",
    "end_processes",
    "end_with_parent",
    "exports",
    "free_port",
    "one_thread_each",
    "start_servers",
    "stop_servers",
    "supervise",
]
