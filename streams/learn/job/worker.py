"""The learn job of one process: an owner for each samples partition that it has, and the online store they fill."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from threading import Event, Thread
from typing import TypeVar

from schemas.codec import encode
from schemas.records import Snapshot
from streams.broker import REAL_CLOCKS, BrokerPort, JobClocks
from streams.learn.job.metrics import LearnWatch
from streams.learn.job.owner import PartitionOwner, Seek
from streams.learn.job.store import Store
from streams.logs import LogRecord
from streams.parameters.job import online_store
from streams.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

Calls = Sequence[Callable[[], None]]


def at_once(calls: Calls) -> None:
    """Make blocking calls, each in a thread of its own, and return when all have ended."""
    futures = [begin(call) for call in calls]
    wait(futures)
    for future in futures:
        future.result()


class LearnJob:
    """One member of the learners' group.

    Whoever runs it polls the samples and calls ``feed``, ``checkpoint`` and ``maintain``; Faust does so in production.
    ``seek`` sends the reader of a partition to an offset and calls ``sought``, or raises NotAssigned. ``run`` makes one
    call for each partition, and returns when all have ended.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        seek: Seek,
        broker: BrokerPort | None = None,
        clocks: JobClocks = REAL_CLOCKS,
        run: Callable[[Calls], None] = at_once,
    ) -> None:
        self.settings = settings
        self.store = Store(settings, broker=broker)
        self.owners: dict[int, PartitionOwner] = {}
        self.online_failures = 0
        self.online_up: bool | None = None  # whether the online store took what there was to put; None: not tried
        self._news, self._stopping = Event(), False
        self.watch = LearnWatch(news=self._news.set)
        self._seek, self._clocks, self._run = seek, clocks, run

    def assign(self, partitions: Iterable[int]) -> list[PartitionOwner]:
        """Take the partitions that a rebalance gave; return the owners of those that it took, to be closed.

        A partition that stays keeps its learner: if it was elsewhere in between, its writer is fenced and the next
        round finds out.
        """
        wanted = set(partitions)
        gone = [self.owners.pop(number) for number in set(self.owners) - wanted]
        for owner in self.owners.values():
            owner.hold()
        for number in sorted(wanted - set(self.owners)):
            self.watch.counts.setdefault(number, Counter())
            self.owners[number] = PartitionOwner(
                self.store, number, seek=self._seek, watch=self.watch, clocks=self._clocks
            )
        return gone

    def sought(self, partition: int, offset: int) -> None:
        """Note that the reader of a partition goes on at an offset."""
        if (owner := self.owners.get(partition)) is not None:
            owner.pending.seek(offset)

    def feed(self, partition: int, records: Sequence[LogRecord]) -> bool:
        """Keep what was polled of a partition; return False if it should not be read until the next seek."""
        owner = self.owners.get(partition)
        return owner is not None and owner.pending.fetched(records)

    def checkpoint(self, ends: Mapping[int, int]) -> None:
        """Learn and publish what each partition was fed, up to its offset in ``ends``."""
        owners = [(self.owners.get(number), end) for number, end in ends.items()]
        self._run([partial(owner.checkpoint, end) for owner, end in owners if owner is not None])

    def maintain(self) -> bool:
        """Look for rollouts, and have owners that are due maintain themselves; return whether there is more to do."""
        self.take_up()
        due = [owner for owner in list(self.owners.values()) if owner.due]
        self._run([owner.maintain for owner in due])
        return any(owner.ready and owner.behind for owner in due)

    @property
    def newest(self) -> dict[str, Snapshot]:
        """Durable snapshots of the assigned partitions, by bucket."""
        owners = list(self.owners.values())  # a thread may assign meanwhile
        return {name: snapshot for owner in owners for name, snapshot in list(owner.newest.items())}

    def take_up(self) -> None:
        """Restart owners whose buckets were rolled out since they were restored."""
        if not self.owners:
            return
        try:
            rollouts = self.store.rolled_out()
        except Exception as error:  # whatever it is, learning need not wait for it
            log.info("failed to poll rollouts: %r", error)
            return
        for owner in list(self.owners.values()):
            owner.take_up(rollouts)

    def keep_online(self) -> None:
        """Put what is durable into the online store, again after it was away or came back empty, until ``stop``."""
        store = online_store(self.settings)
        if store is None:
            return
        encoded: dict[str, tuple[Snapshot, bytes]] = {}
        while not self._stopping:
            for name, snapshot in self.newest.items():
                if name not in encoded or encoded[name][0] is not snapshot:
                    encoded[name] = snapshot, encode(snapshot)
                try:
                    store.put(*encoded[name])
                except Exception as error:  # whatever it is, learning goes on; the next turn tries again
                    self.online_failures += 1
                    self.online_up = False
                    if self.online_failures % 100 == 1:
                        log.warning("%s; snapshots stay on Kafka, the store is filled when it is back", error)
                    break
            else:
                self.online_up = True if encoded else self.online_up
            self._news.wait(self.settings.publish_every_s)
            self._news.clear()
        store.close()

    def stop(self) -> None:
        """End ``keep_online`` at its next turn."""
        self._stopping = True
        self._news.set()


def begin(work: Callable[..., T], *args: object) -> Future[T]:
    """Make a blocking call in a thread that does not hold up the end of the process."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # who stops waiting does not stop the call

    def call() -> None:
        try:
            future.set_result(work(*args))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True, name=getattr(work, "__name__", "work")).start()
    return future


async def in_thread(work: Callable[..., T], *args: object) -> T:
    """Return what a blocking call returns that is made in a thread."""
    return await asyncio.wrap_future(begin(work, *args))
