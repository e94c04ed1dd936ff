"""Snapshots on Kafka and in Redis."""

from streams.parameters.job.kafka import KafkaParameters
from streams.parameters.job.open import (
    STORES,
    SourceUnknown,
    online_address,
    online_store,
    open_parameters,
    serving_store,
)
from streams.parameters.job.redis import RedisParameters

__all__ = [
    "STORES",
    "KafkaParameters",
    "RedisParameters",
    "SourceUnknown",
    "online_address",
    "online_store",
    "open_parameters",
    "serving_store",
]
