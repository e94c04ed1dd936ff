"""Faust's Kafka transport as the learn job needs it: committed records only, each with the offset it follows from.

Faust acknowledges what it drops (records of an older generation, records in flight at a rebalance), and its own commits
cannot see over the gaps that transaction markers leave. So nothing here rests on them: positions come from what is
durably learned, and a record says from which offset on nothing before it is missing, and since which seek.

Nothing is committed through the group either. aiokafka answers a commit that comes too late for a rebalance by joining
the group anew, which is the next rebalance, for which somebody's commit is too late (its issue 727, Faust's 616): once
begun, that never ended. Progress records tell how far learning is.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, ConsumerRebalanceListener, Transport
from faust.types import TP
from mode.utils.logging import get_logger

log = get_logger(__name__)

FOLLOWS = "glimpse-follows"  # header of a delivered record: its Trail


class Trail(NamedTuple):
    """Where a partition's delivery has got to: since which seek, and up to which offset nothing was left out."""

    seek: int  # numbered upwards over all partitions
    offset: int
    stamp_ms: int = 0  # of the record that it is noted on: Faust makes a float of it, which may be another number


class EveryOffset(dict[Any, Any]):
    """Faust's memory of what it has delivered, without the memory: what was delivered may be delivered again."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Note nothing."""


class WaitingListener(ConsumerRebalanceListener):
    """Holds every partition of a new assignment back, until it is sent to where its learner is."""

    _thread: Any

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Hold the partitions back before anybody can fetch from them: without commits that would be from the start."""
        self._thread.hold(assigned)
        await super().on_partitions_assigned(assigned)


class ReadableRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    """What one fetch brought of a partition, up to a batch that cannot be read, of which a note is taken.

    Raised through aiokafka 0.14.0, an error would take what it had fetched of other partitions with it, and count that
    as delivered.
    """

    def __init__(self, *args: Any, unreadable: dict[TopicPartition, str]) -> None:
        super().__init__(*args)
        self._unreadable = unreadable

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            raise
        except Exception as error:  # of a codec, too
            self._unreadable[self._tp] = f"cannot read {self._tp} at offset {self.next_fetch_offset}: {error!r}"
            raise StopIteration from error


class LearnThread(AIOKafkaConsumerThread):
    """The thread around aiokafka's consumer."""

    app: Any
    seeks: int
    unreadable: dict[TopicPartition, str]  # what was met since the last fetch
    # Keyed by the position object of one assignment, so that another assignment starts without a memory.
    trails: WeakKeyDictionary[Any, Trail]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seeks, self.trails, self.unreadable = 0, WeakKeyDictionary(), {}

    def _create_worker_consumer(self, transport: Any) -> Any:
        fetcher.PartitionRecords = partial(ReadableRecords, unreadable=self.unreadable)
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = (
            "read_committed"  # its fetcher is made at start; Faust only asks for this with tables
        )
        return consumer

    async def _fetch_records(self, consumer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            batches = await super()._fetch_records(consumer, *args, **kwargs)
        except OffsetOutOfRangeError as error:  # deleted before it was read, or the log was cut: restoring tells which
            lost = [place for place in error.args[0] if place in self.assignment()]
            self.hold(lost)
            for place in lost:
                self.app.loop.call_soon_threadsafe(self.app.learning.read_again, place.partition)
            return {}
        except KafkaError as error:  # raised here it would end the worker; the broker may only be restarting
            log.warning("samples cannot be fetched now, trying again: %r", error)
            await asyncio.sleep(1.0)
            return {}
        for place, records in batches.items():
            position = self._position(consumer, place)  # still assigned, or aiokafka had not returned them
            seek, follows, _ = self.trails.get(position) or Trail(self.seeks, records[0].offset)
            for record in records:
                record.headers = [*record.headers, (FOLLOWS, b"%d %d %d" % (seek, follows, record.timestamp))]
                follows = record.offset + 1
            self.trails[position] = Trail(seek, follows)
        while self.unreadable:
            place, why = self.unreadable.popitem()
            if place in self.assignment():
                self.hold([place])
                self.app.loop.call_soon_threadsafe(self.app.learning.rest, place.partition, why)
        return batches

    def hold(self, places: Iterable[Any]) -> None:
        """Fetch nothing from partitions until the next seek; any position will do so that aiokafka asks for none."""
        consumer = self._ensure_consumer()
        for place in places:
            consumer.pause(TopicPartition(*place))
            consumer.seek(place, 0)

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Seek to what is learned, as far as partitions are restored."""
        known: Mapping[int, int] = self.app.learned_offsets()
        offsets = {place: known[place.partition] for place in self.assignment() if place.partition in known}
        await self.seek_wait(offsets)
        return offsets

    async def _seek_wait(self, consumer: Any, partitions: Mapping[Any, int]) -> None:
        for place, offset in partitions.items():
            consumer.seek(place, offset)
            self.seeks += 1
            self.trails[self._position(consumer, place)] = Trail(self.seeks, offset)
            consumer.resume(TopicPartition(*place))  # aiokafka does not take Faust's own kind

    @staticmethod
    def _position(consumer: Any, place: Any) -> Any:
        subscription = consumer._subscription.subscription
        assignment = subscription and subscription.assignment
        position = assignment and assignment.state_value(place)
        if position is None:
            raise LookupError(f"{place} is not assigned")
        return position


class LearnConsumer(Consumer):
    """The consumer that Faust drives."""

    RebalanceListener = WaitingListener
    _thread: LearnThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = EveryOffset()

    def _new_consumer_thread(self) -> LearnThread:
        return LearnThread(self, loop=self.loop, beacon=self.beacon)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit nothing, neither by the clock nor at a rebalance nor at the end."""
        return False

    async def seek_numbered(self, place: TP, offset: int) -> int:
        """Seek, and return the number that records delivered from now on carry."""
        await self.seek_wait({place: offset})
        return self.trail(place).seek

    def trail(self, place: TP) -> Trail:
        """Return how far a partition was delivered; raise LookupError when it is not assigned or not begun."""
        return self._thread.trails[self._position(place)]

    def waiting(self, place: TP) -> bool:
        """Return whether the broker has committed records that were not fetched yet, as far as it has told."""
        position = self._position(place)
        return None not in (position.lso, position._position) and position.lso > position._position

    def stable_end(self, place: TP) -> int | None:
        """Return where the committed records of a partition end, as far as the broker has told."""
        end: int | None = self._position(place).lso
        return end

    def _position(self, place: TP) -> Any:
        return self._thread._position(self._thread._ensure_consumer(), place)

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Leave it to the health page to say whether offsets move."""


class LearnTransport(Transport):
    """Faust's transport with the consumer above."""

    Consumer = LearnConsumer


def trail_of(headers: Iterable[tuple[str, bytes]] | Mapping[str, bytes] | None) -> Trail:
    """Return what the consumer above has noted on a delivered record."""
    pairs = dict(headers or ())
    return Trail(*map(int, pairs[FOLLOWS].split()))
