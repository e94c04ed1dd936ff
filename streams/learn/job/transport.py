"""Faust's Kafka transport as the learn job needs it: feeds committed records to the owners of their partitions.

Faust acknowledges what it drops (records of an older generation, records in flight at a rebalance), and its own commits
cannot see over the gaps that transaction markers leave. So nothing here rests on them: owners get what was fetched
before Faust sees it, and their positions come from what is durably learned.

Nothing is committed through the group either. aiokafka answers a commit that comes too late for a rebalance by joining
the group anew, which is the next rebalance, for which somebody's commit is too late (its issue 727, Faust's 616): once
begun, that never ended. Progress records tell how far learning is.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, ConsumerRebalanceListener, Transport
from faust.types import TP
from mode.utils.logging import get_logger

from streams.learn.job.owner import PartitionOwner
from streams.learn.job.worker import LearnJob
from streams.logs import LogRecord

log = get_logger(__name__)


class EveryOffset(dict[Any, Any]):
    """Faust's memory of what it has delivered, without the memory: Faust 0.15.3 drops what it has delivered before."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Note nothing."""


class WaitingListener(ConsumerRebalanceListener):
    """Pauses each partition of a new assignment until its owner seeks; ``LearnThread.pause`` has the reason."""

    _thread: Any

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Pause the partitions before anything is fetched: without commits that would be from the start."""
        self._thread.pause(assigned)
        await super().on_partitions_assigned(assigned)


class ReadableResults(OrderedDict[Any, Any]):
    """A fetcher's results by partition, each of which ends before a batch that cannot be read."""

    def __init__(self, unreadable: dict[TopicPartition, str]) -> None:
        super().__init__()
        self._unreadable = unreadable

    def __setitem__(self, partition: TopicPartition, result: Any) -> None:
        if isinstance(result, FetchResult):
            records = result._partition_records
            records._records_iterator = self._readable(partition, records, records._records_iterator)
        super().__setitem__(partition, result)

    def _readable(self, partition: TopicPartition, records: Any, iterator: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from iterator
        except Exception as error:  # of a codec, too
            self._unreadable[partition] = f"cannot read {partition} at offset {records.next_fetch_offset}: {error!r}"


def end_before_unreadable(fetcher: Fetcher, unreadable: dict[TopicPartition, str]) -> None:
    """Have a fetcher return the records before a batch that cannot be read, and note the reason in ``unreadable``.

    Raised through aiokafka 0.14.0, the error would drop what was fetched of other partitions, whose positions have
    already moved. tests/streams/learn/test_transport.py fails once aiokafka keeps it.
    """
    fetcher._records = ReadableResults(unreadable)


class LearnThread(AIOKafkaConsumerThread):
    """The thread around aiokafka's consumer."""

    app: Any
    unreadable: dict[TopicPartition, str]  # what was met since the last fetch

    @property
    def _job(self) -> LearnJob:
        job: LearnJob = self.app.job
        return job

    def _owner(self, partition: Any) -> PartitionOwner | None:
        return self._job.owners.get(partition.partition)

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # Faust 0.15.3 only asks for this with tables
        return consumer

    async def on_start(self) -> None:
        """Start the consumer."""
        self.unreadable = {}
        await super().on_start()
        end_before_unreadable(self._ensure_consumer()._fetcher, self.unreadable)

    async def _fetch_records(self, consumer: Any, *args: Any, **kwargs: Any) -> Any:
        """Feed what was fetched; what aiokafka 0.14.0 raises through a poll would end a worker of Faust 0.15.3."""
        try:
            batches = await super()._fetch_records(consumer, *args, **kwargs)
        except OffsetOutOfRangeError as error:  # deleted before it was read, or the log was cut: restoring tells which
            lost = [partition for partition in error.args[0] if partition in self.assignment()]
            self.pause(lost)
            for partition in lost:
                if (owner := self._owner(partition)) is not None:
                    owner.lost("the log does not have its next record any more")
            return {}
        except KafkaError as error:  # raised here it would end the worker; the broker may only be restarting
            log.warning("samples cannot be fetched now, trying again: %r", error)
            await asyncio.sleep(1.0)
            return {}
        for partition, fetched in batches.items():
            records = [LogRecord(record.offset, record.timestamp, record.key, record.value) for record in fetched]
            if not self._job.feed(partition.partition, records) and partition in self.assignment():
                self.pause([partition])
        while self.unreadable:
            partition, why = self.unreadable.popitem()
            if partition in self.assignment() and (owner := self._owner(partition)) is not None:
                self.pause([partition])
                owner.wait(why)
        return batches

    def pause(self, partitions: Iterable[Any]) -> None:
        """Fetch nothing from partitions until the next seek.

        aiokafka 0.14.0 asks for a committed position also while a partition is paused, and raises as there is none: any
        position will do. Its own ``pause`` and ``resume`` do not take Faust's kind of partition.
        """
        consumer = self._ensure_consumer()
        for partition in partitions:
            consumer.pause(TopicPartition(*partition))
            consumer.seek(partition, 0)

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Seek nowhere: owners do."""
        return {}

    async def _seek_wait(self, consumer: Any, partitions: Mapping[Any, int]) -> None:
        for partition, offset in partitions.items():
            consumer.seek(partition, offset)
            self._job.sought(partition.partition, offset)
            consumer.resume(TopicPartition(*partition))  # aiokafka does not take Faust's own kind


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

    def progress(self, partition: TP) -> tuple[int | None, int | None] | None:
        """Return up to which offset a partition was fetched, markers included, and where its committed records end.

        Either is None while it is not known, all of it while the partition is not assigned. aiokafka 0.14.0 gives a
        position only to who awaits it in its own thread.
        """
        subscription = self._thread._ensure_consumer()._subscription.subscription
        assignment = subscription and subscription.assignment
        state = assignment and assignment.state_value(partition)
        return None if state is None else (state._position, state.lso)

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Leave it to the health page to say whether offsets move; Faust 0.15.3 looks at commits, of which are none."""


class LearnTransport(Transport):
    """Faust's transport with the consumer above."""

    Consumer = LearnConsumer
