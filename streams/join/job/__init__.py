"""The join as a Kafka job: transactions, partitions, health."""

from streams.join.job.worker import run_join

__all__ = ["run_join"]
