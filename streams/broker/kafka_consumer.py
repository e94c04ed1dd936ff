"""Readers of Kafka for the jobs, by kafka-python; in a group, more than one client can answer the same calls.

Errors are those of kafka-python, whoever answers; after any KafkaError a call may have taken effect or not. No call
waits for ever: each gives up with a KafkaTimeoutError.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import FencedInstanceIdError, KafkaError, NoOffsetForPartitionError

from streams.broker.clients import admin_client, consumer
from streams.broker.lean_records import Fetched
from streams.broker.topics import describe_topics
from streams.broker.workarounds import (
    bounds_of,
    end_joining,
    fetch_committed,
    hand_out_parked,
    is_rejoining,
    keep_assignment,
    note_replacement,
    offset_at,
    position_of,
)
from streams.settings import Settings

log = logging.getLogger(__name__)

ANSWER_MS = 10_000  # for one question to the broker
AGAIN_S = 0.2  # to the next try
COMMITTED_MS = 30_000  # a transaction that another worker left open holds its offsets back until it times out
JOINING_MS = 5_000  # at most, for the group to share its partitions, which waits for all of its members
METADATA_MS = 30_000  # how long partitions that were added may stay unseen
SESSION_MS = 10_000  # how long the partitions of a killed worker wait for their next owner


class GroupOffset(NamedTuple):
    """What a group has committed for one partition."""

    offset: int
    metadata: str


class LogConsumer:
    """A reader of committed records, of partitions that it was told."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        self._settings = settings
        self._consumer = consumer(settings, **options)
        self._asker: KafkaConsumer | None = None
        self._describer: KafkaAdminClient | None = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, each from its beginning unless sought."""
        wanted = list(partitions)
        self._consumer.assign(wanted)
        self._consumer.seek_to_beginning(*wanted)

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came."""
        batches: Mapping[TopicPartition, Sequence[Fetched]] = self._consumer.poll(timeout_ms=timeout_ms)
        return batches

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset that is read next, beyond markers, if it is known."""
        return position_of(self._consumer, partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at ``offset``."""
        self._consumer.seek(partition, offset)

    def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the first offset that each log still has and its end, open transactions included."""
        wanted = list(partitions)
        if self._asker is None:  # a reader of committed records is told the last stable offset as the end
            self._asker = consumer(self._settings, isolation_level="read_uncommitted")
        return bounds_of(self._asker, wanted, within_ms=ANSWER_MS)

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int | None]:
        """Return the first offset of each log whose time stamp is not before ``time_ms``, or None."""
        return {
            partition: offset_at(self._consumer, partition, time_ms, within_ms=ANSWER_MS) for partition in partitions
        }

    def topic_ids(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the ids of those topics that are there now: one made anew under the same name has another."""
        give_up_at = time.monotonic() + ANSWER_MS / 1000
        while True:
            try:
                if self._describer is None:
                    self._describer = admin_client(self._settings)
                return {name: state.topic_id for name, state in describe_topics(self._describer, names).items()}
            except KafkaError as error:  # an admin client does not wait for a broker that is away
                describer, self._describer = self._describer, None
                if describer is not None:
                    describer.close()
                if not error.retriable or time.monotonic() > give_up_at:
                    raise
            time.sleep(AGAIN_S)

    def close(self) -> None:
        """Let go of connections, and leave the group."""
        for client in filter(None, (self._consumer, self._asker)):
            client.close(autocommit=False, timeout_ms=2_000)
        if self._describer is not None:
            self._describer.close()


class GroupConsumer(LogConsumer, ABC):
    """A member of a group, which shares the partitions of its topics in ranges; it commits nothing by itself."""

    _moved = False

    def moved(self) -> bool:
        """Return whether the group has assigned anew since this was last asked; what is assigned is paused."""
        moved, self._moved = self._moved, False
        return moved

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, GroupOffset | None]:
        """Return what the group has committed, waiting for transactions that are still under way."""
        wanted = list(partitions)
        if not wanted:
            return {}
        commits = fetch_committed(self._consumer, wanted, within_ms=COMMITTED_MS, answer_ms=ANSWER_MS)
        known = {  # without the zero that confluent-kafka ends metadata with
            partition: GroupOffset(commit.offset, commit.metadata.rstrip("\0")) for partition, commit in commits.items()
        }
        return {partition: known.get(partition) for partition in wanted}

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member has."""
        return set(self._consumer.assignment())

    @abstractmethod
    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None during a rebalance."""

    def end(self, partition: TopicPartition) -> int | None:
        """Return the log's end as the broker last told with a fetch."""
        highwater: int | None = self._consumer.highwater(partition)
        return highwater

    def pause(self, partition: TopicPartition) -> None:
        """Fetch no more of a partition."""
        self._consumer.pause(partition)

    def resume(self, partition: TopicPartition) -> None:
        """Fetch a partition again."""
        self._consumer.resume(partition)


class KafkaGroupConsumer(GroupConsumer, ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """A member of a group."""

    def __init__(self, settings: Settings, group: str, topics: Sequence[str]) -> None:
        super().__init__(
            settings,
            group_id=group,
            group_instance_id=settings.group_instance_id,
            partition_assignment_strategy=(RangePartitionAssignor,),  # others may split two logs of one partition
            session_timeout_ms=SESSION_MS,
            metadata_max_age_ms=METADATA_MS,
        )
        keep_assignment(self._consumer)
        self._replaced = note_replacement(self._consumer)
        self._generation = -1
        for topic in topics:  # a leader of the group that does not know them yet would assign nothing to anybody
            self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(list(topics), listener=self)

    # Kafka calls both on its own thread, which also sends the heartbeats: they only take notes.
    def on_partitions_assigned(self, assigned: Any) -> None:
        """Hold back new partitions until somebody has said where they are read from."""
        self._consumer.pause(*assigned)
        self._moved = True

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Note that what was assigned may not be any more."""
        self._moved = True

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came; none while a partition has no offset to be read from."""
        if self._replaced.is_set():
            raise FencedInstanceIdError("another member has taken this one's name")
        hand_out_parked(self._consumer)
        try:
            end_joining(self._consumer, within_ms=JOINING_MS)
            batches = super().poll(timeout_ms)
            end_joining(self._consumer, within_ms=JOINING_MS)
        except NoOffsetForPartitionError:
            self._moved = True
            return {}
        return batches

    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None during a rebalance."""
        member = self._consumer.group_metadata()
        if member.generation_id < 0 or is_rejoining(self._consumer):
            return None
        if member.generation_id != self._generation:
            self._generation = member.generation_id
            partitions = sorted({partition.partition for partition in self._consumer.assignment()})
            log.info("generation %d of the group: partitions %s", self._generation, partitions)
        return member
