"""The port to the broker: what the jobs ask of Kafka, in calls that more than one client can answer.

Errors are those of kafka-python, whoever answers; after any KafkaError a call may have taken effect or not. No call
waits for ever: each gives up with a KafkaTimeoutError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kafka import TopicPartition

from streams.broker.topics import Found


class JobClocks(NamedTuple):
    """Where a job gets the time from; simulations give their own."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


REAL_CLOCKS = JobClocks()


class GroupOffset(NamedTuple):
    """What a group has committed for one partition."""

    offset: int
    metadata: str


class Fetched(NamedTuple):
    """One record as a reader gets it; it has the fields of a LogRecord, and may stand for it."""

    offset: int
    timestamp: int  # ms since 1970
    key: bytes | None
    value: bytes | None


class LogConsumer(Protocol):
    """A reader of committed records, of partitions that it was told."""

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Read these partitions, each from its beginning unless sought."""

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came."""

    def position(self, place: TopicPartition) -> int | None:
        """Return the offset that is read next, beyond markers, if it is known."""

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Go on reading at ``offset``."""

    def bounds(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the first offset that each log still has and its end, open transactions included."""

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int | None]:
        """Return the first offset of each log whose time stamp is not before ``time_ms``, or None."""

    def topic_ids(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the ids of those topics that are there now: one made anew under the same name has another."""

    def close(self) -> None:
        """Let go of connections, and leave the group."""


class GroupConsumer(LogConsumer, Protocol):
    """A member of a group, which shares the partitions of its topics in ranges; it commits nothing by itself."""

    def moved(self) -> bool:
        """Return whether the group has assigned anew since this was last asked; what is assigned is paused."""

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member has."""

    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None while the group shares its partitions anew."""

    def committed(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, GroupOffset | None]:
        """Return what the group has committed, waiting for transactions that are still under way."""

    def end(self, place: TopicPartition) -> int | None:
        """Return the log's end as the broker last told with a fetch."""

    def pause(self, place: TopicPartition) -> None:
        """Fetch no more of a partition."""

    def resume(self, place: TopicPartition) -> None:
        """Fetch a partition again."""


class TransactionWriter(Protocol):
    """A producer that writes in transactions; after any error it is abandoned and another one made."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        partition: int = -1,
    ) -> None:
        """Add a record, to the partition of its key unless told."""

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        """Add the group's offsets; the transaction can then commit only while ``member`` is in its group."""

    def commit(self) -> None:
        """Commit; when this returns, all of it is durable."""

    def abandon(self) -> None:
        """Let go at once; a transaction that is open is aborted by the next writer of this name, or by its timeout."""


class BrokerPort(Protocol):
    """A broker as the jobs know it."""

    def topics(self, names: Iterable[str]) -> Mapping[str, Found]:
        """Return those of the topics that are there."""

    def consumer(self) -> LogConsumer:
        """Return a reader in no group."""

    def group_consumer(self, group: str, topics: Sequence[str]) -> GroupConsumer:
        """Return a new member of ``group``."""

    def writer(self, name: str, *, patience_ms: int) -> TransactionWriter:
        """Return a writer that has fenced any older one of this name, and ended what that had begun."""
