"""Where Kafka's default partitioner puts a key."""

from __future__ import annotations

from kafka.partitioner.default import murmur2


def partition_of(bucket: str, partitions: int) -> int:
    """Return the samples partition of a bucket: where Kafka's default partitioner puts its name.

    >>> [partition_of(name, 4) for name in ("ubm", "c2ucb", "pbm")]
    [0, 2, 1]
    """
    return int((murmur2(bucket.encode()) & 0x7FFFFFFF) % partitions)
