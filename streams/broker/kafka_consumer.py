"""kafka-python's consumer behind the port."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    FencedInstanceIdError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NoOffsetForPartitionError,
    UnstableOffsetCommitError,
)

from streams.broker.clients import (
    admin_client,
    consumer,
    end_joining,
    hand_out_parked,
    keep_assignment,
    replaced,
)
from streams.broker.lean_records import read_lean
from streams.broker.port import Fetched, GroupOffset
from streams.broker.topics import describe_topics
from streams.broker.wide_reads import read_wide
from streams.settings import Settings

log = logging.getLogger(__name__)

ANSWER_MS = 10_000  # for one question to the broker
AGAIN_S = 0.2  # to the next try
COMMITTED_MS = 30_000  # a transaction that another worker left open holds its offsets back until it times out
JOINING_MS = 5_000  # at most, for the group to share its partitions, which waits for all of its members
METADATA_MS = 30_000  # how long partitions that were added may stay unseen
SESSION_MS = 10_000  # how long the partitions of a killed worker wait for their next owner


class KafkaLogConsumer:
    """A reader of committed records, by hand."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        self._settings = settings
        self._consumer = consumer(settings, **options)
        read_lean(self._consumer)
        read_wide(self._consumer)
        self._asker: KafkaConsumer | None = None
        self._describer: KafkaAdminClient | None = None

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Read these partitions, each from its beginning unless sought."""
        wanted = list(places)
        self._consumer.assign(wanted)
        self._consumer.seek_to_beginning(*wanted)

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came."""
        found: Mapping[TopicPartition, Sequence[Fetched]] = self._consumer.poll(timeout_ms=timeout_ms)
        return found

    def position(self, place: TopicPartition) -> int | None:
        """Return the offset that is read next, beyond markers, if it is known.

        The library's own ``position`` also raises what the next poll should: that a log was truncated, for one.
        """
        state = self._consumer._subscription.assignment.get(place)
        if state is None:
            raise IllegalStateError(f"{place} is not assigned")
        return None if state.position is None else int(state.position.offset)

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Go on reading at ``offset``."""
        self._consumer.seek(place, offset)

    def bounds(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the first offset that each log still has and its end, open transactions included."""
        wanted = list(places)
        if self._asker is None:  # a reader of committed records is told the last stable offset as the end
            self._asker = consumer(self._settings, isolation_level="read_uncommitted")
        try:
            starts = self._asker.beginning_offsets(wanted, timeout_ms=ANSWER_MS)
            ends = self._asker.end_offsets(wanted, timeout_ms=ANSWER_MS)
        except KeyError as error:  # kafka-python leaves out those whose leader it does not know, and asks for that
            raise LeaderNotAvailableError(f"nobody is known to lead {error.args[0]}") from error
        return {place: (starts[place], ends[place]) for place in wanted}

    def committed(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, GroupOffset | None]:
        """Return what the group that was named has committed, waiting for transactions that are still under way."""
        wanted = list(places)
        found = self._fetch_committed(wanted) if wanted else {}
        entries = {place: found.get(place) for place in wanted}
        return {  # without the zero that confluent-kafka ends metadata with
            place: GroupOffset(entry.offset, entry.metadata.rstrip("\0")) if entry else None
            for place, entry in entries.items()
        }

    def _fetch_committed(self, places: list[TopicPartition]) -> Mapping[TopicPartition, Any]:
        coordinator = self._consumer._coordinator
        try:  # all in one request; the public way asks for one partition at a time
            found: Mapping[TopicPartition, Any] = coordinator.fetch_committed_offsets(places, timeout_ms=COMMITTED_MS)
        except KafkaTimeoutError:  # which does not say why: ask once more
            try:
                found = coordinator._net.run(self._ask_committed, places)
            except UnstableOffsetCommitError as error:
                raise UnstableOffsetCommitError(
                    f"a transaction has held the group's offsets back for {COMMITTED_MS / 1000:g} s. If this is said"
                    " again and again, the broker has lost its end, as Kafka 4.3.0 and 4.3.1 may; for the way out, with"
                    " kafka-transactions.sh find-hanging, look for KAFKA-20734 in ARCHITECTURE.md"
                ) from error
        return found

    async def _ask_committed(self, places: list[TopicPartition]) -> Any:
        coordinator = self._consumer._coordinator
        asked = coordinator._manager.call_soon(coordinator._send_offset_fetch_request, places)
        return await coordinator._manager.wait_for(asked, ANSWER_MS)

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int | None]:
        """Return the first offset of each log whose time stamp is not before ``time_ms``, or None."""
        ask = self._consumer.offsets_for_times  # one at a time: of many, those whose leader is not known seem empty
        found = {place: ask({place: time_ms}, timeout_ms=ANSWER_MS)[place] for place in places}
        return {place: entry.offset if entry else None for place, entry in found.items()}

    def topic_ids(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the ids of those topics that are there now: one made anew under the same name has another."""
        give_up_at = time.monotonic() + ANSWER_MS / 1000
        while True:
            try:
                if self._describer is None:
                    self._describer = admin_client(self._settings)
                return {name: found.topic_id for name, found in describe_topics(self._describer, names).items()}
            except KafkaError as error:  # an admin client does not wait for a broker that is away
                describer, self._describer = self._describer, None
                if describer is not None:
                    describer.close()
                if not error.retriable or time.monotonic() > give_up_at:
                    raise
            time.sleep(AGAIN_S)

    def close(self) -> None:
        """Let go of connections, and leave the group."""
        self._consumer.close(autocommit=False, timeout_ms=2_000)
        if self._asker is not None:
            self._asker.close(autocommit=False, timeout_ms=2_000)
        if self._describer is not None:
            self._describer.close()


class KafkaGroupConsumer(KafkaLogConsumer, ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
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
        self._replaced = replaced(self._consumer)
        self._moved, self._generation = False, -1
        for topic in topics:  # a leader of the group that does not know them yet would assign nothing to anybody
            self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(list(topics), listener=self)

    # Kafka calls these two on its own thread, which also sends the heartbeats: they only take notes.
    def on_partitions_assigned(self, assigned: Any) -> None:
        """Hold back new partitions until somebody has said where they are read from."""
        self._consumer.pause(*assigned)
        self._moved = True

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Note that what was assigned may not be any more."""
        self._moved = True

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came; none while a partition has no place to be read from."""
        if self._replaced.is_set():
            raise FencedInstanceIdError("another member has taken this one's name")
        hand_out_parked(self._consumer)
        try:
            end_joining(self._consumer, within_ms=JOINING_MS)
            found = super().poll(timeout_ms)
            end_joining(self._consumer, within_ms=JOINING_MS)
        except NoOffsetForPartitionError:
            self._moved = True
            return {}
        return found

    def moved(self) -> bool:
        """Return whether the group has assigned anew since this was last asked; what is assigned is paused."""
        moved, self._moved = self._moved, False
        return moved

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member has."""
        return set(self._consumer.assignment())

    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None while the group shares its partitions anew.

        Then kafka-python may know its next generation and still have the partitions of the last one: a commit of both
        together would not be refused.
        """
        member = self._consumer.group_metadata()
        joining = self._consumer._coordinator.rejoining
        if member.generation_id < 0 or joining:
            return None
        if member.generation_id != self._generation:
            self._generation = member.generation_id
            partitions = sorted({place.partition for place in self._consumer.assignment()})
            log.info("generation %d of the group: partitions %s", self._generation, partitions)
        return member

    def end(self, place: TopicPartition) -> int | None:
        """Return the log's end as the broker last told with a fetch."""
        found: int | None = self._consumer.highwater(place)
        return found

    def pause(self, place: TopicPartition) -> None:
        """Fetch no more of a partition."""
        self._consumer.pause(place)

    def resume(self, place: TopicPartition) -> None:
        """Fetch a partition again."""
        self._consumer.resume(place)
