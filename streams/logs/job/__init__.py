"""Logs on Kafka: reading, copying to an archive, restoring from one."""

from streams.logs.job.copy import copy
from streams.logs.job.kafka_source import KafkaSource, open_source
from streams.logs.job.resend import resend
from streams.logs.job.restore import restore

__all__ = ["KafkaSource", "copy", "open_source", "resend", "restore"]
