"""The logs that tell how consumers moved in, their commits by time out: ``__consumer_offsets`` and ``parameters``.

Both are read with assigned partitions and no group, so that nothing of what is watched is touched.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from kafka import KafkaConsumer, TopicPartition

from schemas.codec import SchemaError, decode
from schemas.records import Progress
from streams.lagging.commit_records import TOPIC, Committed, Place, committed_of, home_of, place_of
from streams.settings import Settings

PATIENCE_MS = 5_000  # with a broker that does not answer
PROGRESS = b"@samples-"


def reader(settings: Settings, **changes: Any) -> KafkaConsumer:
    """Return a consumer without a group that reads committed records."""
    options = {
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": 1 << 20,
        "fetch_max_wait_ms": 50,
        "request_timeout_ms": PATIENCE_MS,
        "bootstrap_timeout_ms": PATIENCE_MS,
    }
    return KafkaConsumer(**settings.kafka_client() | options | changes)


def drain(consumer: KafkaConsumer, *, patience_s: float = 10.0) -> Iterator[Any]:
    """Yield the records up to where the assigned partitions end now."""
    ends: Mapping[TopicPartition, int] = consumer.end_offsets(list(consumer.assignment()))
    give_up_at = time.monotonic() + patience_s
    while any(consumer.position(place) < end for place, end in ends.items()):
        for records in consumer.poll(timeout_ms=100).values():
            yield from records
        if time.monotonic() > give_up_at:
            return  # what is missing comes with the next reading


Of = TypeVar("Of")


class Commits(Generic[Of]):
    """Commits by what they are of, oldest first, and the consumer that they come from."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.commits: defaultdict[Of, list[Committed]] = defaultdict(list)
        self._consumer = consumer

    def forget(self, before_ms: float) -> None:
        """Drop what is older than this, but for the last commit before."""
        for commits in self.commits.values():
            while len(commits) > 1 and (commits[1].at_ms or 0) < before_ms:
                del commits[0]

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()


class CommitLog(Commits[Place]):
    """The commits of some groups, as the broker has noted them.

    Parameters
    ----------
    settings
        Where Kafka is.
    groups
        Whose commits.
    partitions
        How many ``__consumer_offsets`` has.
    since_ms
        Commits before are of no interest.
    """

    def __init__(self, settings: Settings, groups: Iterable[str], *, partitions: int, since_ms: int) -> None:
        super().__init__(reader(settings))
        self.groups = frozenset(groups)
        places = sorted({TopicPartition(TOPIC, home_of(group, partitions)) for group in self.groups})
        self._consumer.assign(places)
        found = self._consumer.offsets_for_times(dict.fromkeys(places, since_ms))
        self._consumer.seek_to_end(*[place for place in places if found[place] is None])
        for place, first in found.items():
            if first is not None:
                self._consumer.seek(place, first.offset)

    def catch_up(self) -> None:
        """Read to the end; a group or offset that was deleted loses its commits."""
        for record in drain(self._consumer):
            place = place_of(record.key)
            if place is None or place.group not in self.groups:
                continue
            if record.value is None:
                self.commits.pop(place, None)
            elif (commit := committed_of(record.value)) is not None:
                self.commits[place].append(commit)


class ProgressLog(Commits[int]):
    """How far each samples partition was learned: the progress records among the snapshots on ``parameters``."""

    def __init__(self, settings: Settings, topic: str, partitions: Iterable[int]) -> None:
        super().__init__(reader(settings, max_partition_fetch_bytes=8 << 20))
        self.unreadable = 0
        places = [TopicPartition(topic, number) for number in partitions]
        self._consumer.assign(places)
        self._consumer.seek_to_beginning(*places)

    def catch_up(self) -> None:
        """Read to the end; snapshots are passed over without a look inside."""
        for record in drain(self._consumer):
            if not (record.key or b"").startswith(PROGRESS):
                continue
            try:
                progress = decode(record.value or b"", Progress)
            except SchemaError:
                self.unreadable += 1
                continue
            self.commits[progress.samples_partition].append(
                Committed(progress.next_offset, "", progress.published_at_ms, progress.samples_topic_id)
            )
