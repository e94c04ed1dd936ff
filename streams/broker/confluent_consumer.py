"""confluent-kafka's member of a group behind the port."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import KafkaError as ConfluentError
from kafka import TopicPartition
from kafka.errors import IllegalStateError, OffsetOutOfRangeError

from streams.broker.confluent_options import as_port_error, client_options, confluent_place, errors_of_the_port
from streams.broker.kafka_consumer import METADATA_MS, SESSION_MS, KafkaLogConsumer
from streams.broker.port import Fetched
from streams.broker.unreadable import UnreadableBatch
from streams.settings import Settings

log = logging.getLogger(__name__)

MOST_RECORDS = 4_000  # of one poll
MOST_PARKED = 20_000  # records of a paused partition that are kept here; then the client fetches no more of it
MOST_PARKED_BYTES = 16 << 20  # in the last 4,000 of them
_UNREADABLE = (ConfluentError._BAD_MSG, ConfluentError._BAD_COMPRESSION, ConfluentError._NOT_IMPLEMENTED)
_LOST = (ConfluentError._AUTO_OFFSET_RESET, ConfluentError._LOG_TRUNCATION)


class ConfluentGroupConsumer(KafkaLogConsumer):
    """A member of a group; what is asked of the broker now and then goes through kafka-python.

    librdkafka drops what it has fetched of a partition when that is paused, and refuses to seek in one that it has not
    begun to fetch. So records of a paused partition are parked here, and it is given partitions only together with the
    offsets that they are read from.
    """

    def __init__(self, settings: Settings, group: str, topics: Sequence[str]) -> None:
        # Named, so that kafka-python reads its commits: confluent-kafka takes their metadata to end with a zero, which
        # it alone writes, and reads on into other memory.
        super().__init__(settings, group_id=group)
        options = {
            "group.id": group,
            "partition.assignment.strategy": "range",  # others may split two logs of one partition
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,  # tells where it stands beyond markers
            "check.crcs": True,
            "fetch.message.max.bytes": 8 << 20,
            "queued.min.messages": 3 * MOST_RECORDS,
            "queued.max.messages.kbytes": 16 << 10,
            "fetch.queue.backoff.ms": 10,  # it looks away for a second once its queue is full
        }
        if settings.group_instance_id is not None:
            options["group.instance.id"] = settings.group_instance_id
        self._places: dict[tuple[str, int], TopicPartition] = {}  # what is assigned
        self._next: dict[TopicPartition, int] = {}  # where each is read from
        self._ends: dict[TopicPartition, int] = {}  # as far as there is nothing but markers behind what came
        self._parked: dict[TopicPartition, list[Fetched]] = {}
        self._paused: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()  # paused in the client too
        self._sought = self._moved = self._joined = False
        with errors_of_the_port():
            self._member_of = Consumer(client_options(settings) | options)
            self._member_of.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    # Both are called within a poll.
    def _on_assign(self, member: Consumer, assigned: list[Any]) -> None:
        member.assign([])  # nothing is fetched until somebody has said from where
        self._hold([TopicPartition(one.topic, one.partition) for one in assigned])
        self._joined = True
        # librdkafka does not tell the generation
        log.info("the group gives partitions %s", sorted({one.partition for one in assigned}))

    def _on_revoke(self, member: Consumer, revoked: list[Any]) -> None:
        self._hold([])

    def _hold(self, places: list[TopicPartition]) -> None:
        self._places = {place: place for place in places}
        self._paused, self._moved, self._sought, self._joined = set(places), True, False, False
        for kept in (self._next, self._ends, self._parked):
            kept.clear()
        self._stopped.clear()

    def assign(self, places: Iterable[TopicPartition]) -> None:
        """Refuse: the group assigns."""
        raise IllegalStateError("a member of a group is assigned its partitions")

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Fetched]]:
        """Return records that came; none while a partition has no place to be read from."""
        with errors_of_the_port():
            if self._sought:
                self._member_of.assign([confluent_place(place, offset) for place, offset in self._next.items()])
                self._sought = False
                self._stopped.clear()
            found = self._taken(self._member_of.consume(MOST_RECORDS, timeout_ms / 1000))
            self._stop({place for place in self._paused - self._stopped if self._is_full(place)})
            self._start(self._stopped - self._paused)
        return found

    def _taken(self, messages: list[Any]) -> dict[TopicPartition, list[Fetched]]:
        """Return the records of partitions that are not paused; the others are parked."""
        make, find, parked, errors = tuple.__new__, self._places.get, self._parked, []
        for message in messages:
            place = find((message.topic(), message.partition()))
            error = message.error()
            if error is not None:
                errors.append((place, error, message.offset()))
            elif place is not None:
                row = message.offset(), message.timestamp()[1], message.key(), message.value()
                parked.setdefault(place, []).append(make(Fetched, row))
        for place, error, offset in errors:
            if place is not None and error.code() == ConfluentError._PARTITION_EOF:
                self._ends[place] = offset
        self._tell(errors)
        found = {place: parked.pop(place) for place in [*parked] if place not in self._paused}
        for place, records in found.items():
            self._next[place] = records[-1].offset + 1
        for place in self._ends.keys() - parked.keys():
            self._next[place] = max(self._next[place], self._ends[place])
        return found

    @staticmethod
    def _tell(errors: list[Any]) -> None:
        """Raise what is wrong; of batches that cannot be read all at once, for librdkafka goes on behind them."""
        unreadable = [one for one in errors if one[0] is not None and one[1].code() in _UNREADABLE]
        if unreadable:
            first = {place: offset for place, _, offset in reversed(unreadable)}
            raise UnreadableBatch(first, "; ".join(error.str() for _, error, _ in unreadable))
        lost = {place: offset for place, error, offset in errors if place is not None and error.code() in _LOST}
        if lost:  # of all of them: librdkafka says it once, and fetches no more
            raise OffsetOutOfRangeError(lost)
        for _, error, _ in errors:
            if error.code() != ConfluentError._PARTITION_EOF:
                raise as_port_error(error)

    def _is_full(self, place: TopicPartition) -> bool:
        records = self._parked.get(place, [])
        size = sum(len(record.value or b"") for record in records[-MOST_RECORDS:])
        return len(records) > MOST_PARKED or size > MOST_PARKED_BYTES

    def _stop(self, places: set[TopicPartition]) -> None:
        if places:
            self._member_of.pause([confluent_place(place) for place in places])
            self._stopped |= places

    def _start(self, places: set[TopicPartition]) -> None:
        if places:
            self._member_of.resume([confluent_place(place) for place in places])
            self._stopped -= places

    def moved(self) -> bool:
        """Return whether the group has assigned anew since this was last asked; what is assigned is paused."""
        moved, self._moved = self._moved, False
        return moved

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member has."""
        return set(self._places.values())

    def member(self) -> Any | None:
        """Return the membership under which offsets are committed; None while the group shares its partitions anew.

        A member joins anew only after it was told within a poll that its partitions are gone.
        """
        return self._member_of.consumer_group_metadata() if self._joined else None

    def position(self, place: TopicPartition) -> int | None:
        """Return the offset that is read next, beyond markers, if it is known."""
        self._require(place)
        return self._next.get(place)

    def end(self, place: TopicPartition) -> int | None:
        """Return the log's end as the broker last told with a fetch."""
        self._require(place)
        with errors_of_the_port():
            bounds = self._member_of.get_watermark_offsets(confluent_place(place), cached=True)
        return int(bounds[1]) if bounds is not None and bounds[1] >= 0 else None

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Go on reading at ``offset``."""
        self._require(place)
        self._next[place], self._sought = offset, True
        for kept in (self._ends, self._parked):
            kept.clear()  # all are assigned anew, from where they stand

    def pause(self, place: TopicPartition) -> None:
        """Fetch no more of a partition."""
        self._require(place)
        self._paused.add(place)

    def resume(self, place: TopicPartition) -> None:
        """Fetch a partition again."""
        self._require(place)
        self._paused.discard(place)

    def _require(self, place: TopicPartition) -> None:
        if place not in self._places:
            raise IllegalStateError(f"{place} is not assigned")

    def close(self) -> None:
        """Let go of connections, and leave the group."""
        self._member_of.close()
        super().close()
