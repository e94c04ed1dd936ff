"""Logs on Kafka: reading, copying to an archive, restoring from one, sending dead letters again."""

from streams.logs.job.copy import copy, resend, restore
from streams.logs.job.kafka_source import KafkaSource, open_source

__all__ = ["KafkaSource", "copy", "open_source", "resend", "restore"]
