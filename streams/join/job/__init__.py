"""The join as a Kafka job: transactions, partitions, health."""

from streams.join.job.run import run_join

__all__ = ["run_join"]
