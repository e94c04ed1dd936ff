"""The logs that tell how consumers moved: ``__consumer_offsets`` and ``parameters``.

Both are read with assigned partitions and no group, so that nothing of what is watched is touched.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from schemas.codec import SchemaError, decode
from schemas.records import Progress
from streams.broker import consumer
from streams.lag.commit_records import (
    TOPIC,
    Committed,
    GroupPartition,
    committed_of,
    group_partition_of,
    offsets_partition_of,
)
from streams.settings import Settings

SILENCE_S = 1.5  # after which no more will come
PATIENCE_MS = 5_000  # with a broker that does not answer
PROGRESS = b"@samples-"
KEPT = 12  # commits of a partition at least, however old


def reader(settings: Settings, **changes: Any) -> KafkaConsumer:
    """Return a consumer without a group that reads committed records."""
    options: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": 1 << 20,
        "fetch_max_wait_ms": 50,
        "request_timeout_ms": PATIENCE_MS,
        "bootstrap_timeout_ms": PATIENCE_MS,
    }
    return consumer(settings, **options | changes)


def drain(consumer: KafkaConsumer) -> Iterator[Any]:
    """Yield the records up to where the assigned partitions end now, or to where none come: a tail may be compacted."""
    ends: Mapping[TopicPartition, int] = consumer.end_offsets(list(consumer.assignment()))
    give_up_at = time.monotonic() + SILENCE_S
    while time.monotonic() < give_up_at and any(consumer.position(partition) < end for partition, end in ends.items()):
        for records in consumer.poll(timeout_ms=100).values():
            yield from records
            give_up_at = time.monotonic() + SILENCE_S


def begin_at(consumer: KafkaConsumer, partitions: list[TopicPartition], since_ms: int) -> None:
    """Read partitions from their first record of ``since_ms`` or later, or from their end."""
    consumer.assign(partitions)
    for partition, first in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
        if first is None:
            consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, first.offset)


def forget(commits: Iterable[list[Committed]], before_ms: float) -> None:
    """Drop commits before a time, except the last ones before it, which tell how often there is one."""
    for history in commits:
        while len(history) > KEPT and (history[1].at_ms or 0) < before_ms:
            del history[0]


class CommitLog:
    """The commits of some groups, oldest first, as the broker has noted them in ``partitions`` partitions."""

    def __init__(self, settings: Settings, groups: Iterable[str], *, partitions: int, since_ms: int) -> None:
        self.commits: defaultdict[GroupPartition, list[Committed]] = defaultdict(list)
        self.groups = frozenset(groups)
        self.consumer = reader(settings)
        assigned = sorted({TopicPartition(TOPIC, offsets_partition_of(group, partitions)) for group in self.groups})
        begin_at(self.consumer, assigned, since_ms)

    def catch_up(self) -> int:
        """Read to the end and return the newest time among what was new, 0 for nothing; what was deleted goes."""
        newest_ms = 0
        for record in drain(self.consumer):
            partition = group_partition_of(record.key)
            if partition is None or partition.group not in self.groups:
                continue
            if record.value is None:
                self.commits.pop(partition, None)
            elif (commit := committed_of(record.value)) is not None:
                self.commits[partition].append(commit)
                newest_ms = max(newest_ms, commit.at_ms or 0)
        return newest_ms


class ProgressLog:
    """How far each samples partition was learned: the progress records among the snapshots on ``parameters``.

    Snapshots are large, so reading begins at ``since_ms``; only when that does not tell of all ``partitions`` of the
    samples, at the beginning.
    """

    def __init__(self, settings: Settings, topic: str, partitions: Iterable[int], *, since_ms: int) -> None:
        self.commits: defaultdict[int, list[Committed]] = defaultdict(list)
        self.unreadable = 0
        self.consumer = reader(settings, max_partition_fetch_bytes=8 << 20)
        self._wanted = set(partitions)
        self._partition = TopicPartition(topic, 0)
        begin_at(self.consumer, [self._partition], since_ms)

    def catch_up(self) -> None:
        """Read to the end; snapshots are passed over without a look inside."""
        self._read()
        if self._wanted - self.commits.keys():
            self.commits.clear()
            self.unreadable = 0
            self.consumer.seek_to_beginning(self._partition)
            self._read()
            self._wanted = set()  # who is not there yet will come at the end

    def _read(self) -> None:
        for record in drain(self.consumer):
            if not (record.key or b"").startswith(PROGRESS):
                continue
            try:
                progress = decode(record.value or b"", Progress)
                if min(progress.next_offset, progress.published_at_ms) < 0:
                    raise SchemaError("an offset before the log, or a time before 1970")
            except SchemaError:
                self.unreadable += 1
                continue
            self.commits[progress.samples_partition].append(
                Committed(progress.next_offset, "", progress.published_at_ms, progress.samples_topic_id)
            )
