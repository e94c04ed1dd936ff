"""A Kafka and a Redis on this machine, for development and tests."""

from streams.local.kafka import LocalKafka
from streams.local.redis import LocalRedis
from streams.local.up import Addresses, compose, start_servers, stop_servers

__all__ = ["Addresses", "LocalKafka", "LocalRedis", "compose", "start_servers", "stop_servers"]
