"""Snapshots on Kafka and in Redis."""

from streams.parameters.job.kafka import KafkaParameters
from streams.parameters.job.open import SourceUnknown, open_parameters
from streams.parameters.job.redis import RedisParameters

__all__ = ["KafkaParameters", "RedisParameters", "SourceUnknown", "open_parameters"]
