"""The rounds of a worker's partitions, apart from Faust: restoring, learning, starting over after a fault.

Each partition has at most one round or restoration under way, in a thread of its own, so that the event loop lives
while Kafka is slow or away. Whatever fails, the partition is restored from what is durable and read again from there.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from schemas.records import Snapshot
from streams.broker import BrokerPort, UnreadableBatch, was_fenced
from streams.learn.job.metrics import ModelMetrics
from streams.learn.job.online import OnlineStore
from streams.learn.job.owner import PartitionOwner
from streams.learn.job.store import Store
from streams.learn.job.threads import in_thread
from streams.learn.partition_learner import Counts
from streams.logs import LogRecord
from streams.parameters import Hopeless
from streams.settings import Settings
from streams.web import BulkHistogram

log = logging.getLogger(__name__)

REFUSED_REST_S = 30.0  # until what somebody must decide is looked at again: the other partitions go on
UNREADABLE_REST_S = 10.0  # to the next try to read a batch that is damaged
FENCED_REST_S = 3.0  # more than a heartbeat takes to tell who woke up that it is in the group no more

Seek = Callable[[int, int], Awaitable[int]]  # (partition, offset) -> the number of the seek


class NotAssigned(LookupError):
    """A partition that the group has given to somebody else, or not given to anybody yet."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record with the offset that it follows from, nothing between the two being missing, and since which seek."""

    partition: int
    seek: int
    follows: int
    record: LogRecord


@dataclass(slots=True)
class AssignedPartition:
    """One assigned partition."""

    owner: PartitionOwner
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sought: bool = False  # whether the consumer was sent to where the learner is
    seek: int = 0  # records delivered since an earlier seek are still in the pipe, and left out
    newest: dict[str, Snapshot] = field(default_factory=dict)  # durable snapshots of its buckets, gone when it goes
    trouble: str = ""  # why its state was given up, until it is restored
    rests_until: float = 0.0  # by the event loop's clock: fenced, or before a batch that is damaged

    @property
    def ready(self) -> bool:
        """Whether the partition is restored, and read from where its learner is."""
        return self.sought and self.owner.learner is not None

    @property
    def rests(self) -> bool:
        """Whether it is left alone for now; who is fenced lets the group say first whose partition it is."""
        return asyncio.get_running_loop().time() < self.rests_until

    def rest(self, seconds: float) -> None:
        """Leave it alone for a while."""
        self.rests_until = asyncio.get_running_loop().time() + seconds


class Learning:
    """Keeps the owners of the assigned partitions restored, fed and published.

    Parameters
    ----------
    settings
        What to learn, and where.
    seek
        Sends the consumer of a partition to an offset and returns the number of that seek, which only grows, or raises
        NotAssigned.
    broker
        Where the samples come from and the snapshots go; Kafka as the settings name it by default.
    """

    def __init__(self, settings: Settings, *, seek: Seek, broker: BrokerPort | None = None) -> None:
        self.settings = settings
        self.store = Store(settings, broker=broker)
        self.places: dict[int, AssignedPartition] = {}
        self.rounds = self.restored = self.gaps = 0
        self.counts: dict[int, Counts] = {}  # what was learned here and is durable, of partitions that are gone too
        self.models = ModelMetrics()
        self.seconds = BulkHistogram("glimpse_learn_round_seconds", "To learn and publish a round.")
        self._seek = seek
        self.online = OnlineStore(settings, newest=lambda: self.newest)
        self._stopping = False
        self._ending: set[asyncio.Future[None]] = set()

    def assign(self, partitions: Iterable[int]) -> None:
        """Take the partitions that a rebalance gave, and let go of those that it took.

        A partition that stays keeps its state: had it been elsewhere in between, its producer is fenced and the next
        round finds out.
        """
        wanted = set(partitions)
        for number in set(self.places) - wanted:
            self._later(let_go(self.places.pop(number)))
        for place in self.places.values():
            place.sought = False
        for number in sorted(wanted - set(self.places)):
            newest: dict[str, Snapshot] = {}
            owner = PartitionOwner(self.store, number, published=partial(self._published, newest))
            self.places[number] = AssignedPartition(owner, newest=newest)
            self.counts.setdefault(number, Counts())

    def read_again(self, number: int) -> None:
        """Restore a partition whose next record the log does not have: it was deleted unread, or the log was cut."""
        place = self.places.get(number)
        if place is not None:
            self._later(self._lost(number, place))

    def rest(self, number: int, why: str) -> None:
        """Read a partition again only in a while, from where its learner is then: nobody can read on there now."""
        place = self.places.get(number)
        if place is not None:
            log.error("samples partition %d waits: %s; it is tried again every %g s", number, why, UNREADABLE_REST_S)
            place.sought, place.trouble = False, why
            place.rest(UNREADABLE_REST_S)

    async def _lost(self, number: int, place: AssignedPartition) -> None:
        async with place.lock:
            await self._give_up(number, place, LookupError("the log does not have its next record any more"))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        self._ending.add(end := asyncio.ensure_future(work))
        end.add_done_callback(self._ending.discard)

    def offsets(self) -> dict[int, int]:
        """Return the next offset to learn of each partition that is restored."""
        known = {number: place.owner.learner for number, place in list(self.places.items())}  # also asked by a thread
        return {number: learner.next_offset for number, learner in known.items() if learner is not None}

    @property
    def newest(self) -> dict[str, Snapshot]:
        """Durable snapshots of the assigned partitions, by bucket."""
        return {name: snapshot for place in list(self.places.values()) for name, snapshot in list(place.newest.items())}

    def _published(self, newest: dict[str, Snapshot], snapshot: Snapshot) -> None:
        # Called from the owner's thread, maybe after its partition was taken away: so only the place's own is changed.
        newest[snapshot.bucket] = snapshot
        self.models.published(snapshot)

    def _count(self, number: int, before: Counts, after: Counts) -> None:
        """Count a round that is durable; one that fails is learned again, and counted then."""
        total = self.counts.setdefault(number, Counts())
        for part in fields(Counts):
            more = getattr(after, part.name) - getattr(before, part.name)
            setattr(total, part.name, getattr(total, part.name) + more)

    async def take(self, delivered: Sequence[Delivered]) -> None:
        """Learn and publish what was delivered; what cannot be learned now is asked for again."""
        by_partition: dict[int, list[Delivered]] = {}
        for one in delivered:
            by_partition.setdefault(one.partition, []).append(one)
        await asyncio.gather(*(self._round(number, batch) for number, batch in by_partition.items()))

    async def _round(self, number: int, batch: Sequence[Delivered]) -> None:
        place = self.places.get(number)
        if place is None or place.owner.learner is None:
            return  # not ours any more, or not yet: after restoring, the consumer is sent back to these records
        async with place.lock:
            if place.owner.learner is None or self._stopping:
                return
            batch = [one for one in batch if one.seek >= place.seek]
            records, whole = contiguous(batch, place.owner.learner.next_offset)
            if records:
                began, counts = time.monotonic(), place.owner.learner.counts
                before = replace(counts)
                try:
                    await in_thread(place.owner.learn, records)
                except Exception as error:  # whatever it is, the state may now differ from what is durable
                    await self._give_up(number, place, error)
                    return
                self.rounds += 1
                self._count(number, before, counts)
                self.seconds.observe(time.monotonic() - began)
                self.online.news.set()
            if not whole:
                log.info("samples partition %d: records are missing, reading again", number)
                self.gaps += 1
                place.sought = False
        if not place.sought:
            await self._tend(number, place)

    async def tend(self) -> None:
        """Restore what is not restored, and send consumers to where their learner is."""
        await asyncio.gather(*(self._tend(number, place) for number, place in list(self.places.items())))

    async def _tend(self, number: int, place: AssignedPartition) -> None:
        if place.ready or place.lock.locked() or self._stopping or place.rests:
            return
        async with place.lock:
            try:
                if place.owner.learner is None:
                    learner = await in_thread(place.owner.restore)
                    self.restored += 1
                    log.info("samples partition %d is restored to offset %d", number, learner.next_offset)
                    self.online.news.set()
                if self.places.get(number) is place and place.owner.learner is not None:
                    place.seek = await self._seek(number, place.owner.learner.next_offset)
                    place.sought, place.trouble = True, ""
            except NotAssigned:
                return  # a rebalance is under way
            except Exception as error:
                await self._give_up(number, place, error)

    async def catch_up(self) -> bool:
        """Learn some of what lies behind the head of each log; return whether there was anything."""
        ready = [(number, place) for number, place in self.places.items() if place.ready and not place.rests]
        behind = [(number, place) for number, place in ready if place.owner.behind]
        await asyncio.gather(*(self._catch_up(number, place) for number, place in behind))
        return bool(behind)

    async def _catch_up(self, number: int, place: AssignedPartition) -> None:
        async with place.lock:
            if place.owner.learner is None or self._stopping:
                return
            before = replace(place.owner.learner.counts)
            try:
                await in_thread(place.owner.catch_up)
            except UnreadableBatch as error:  # nothing was learned yet, and the head need not wait
                log.error("samples partition %d does not catch up: %s", number, error)
                place.rest(UNREADABLE_REST_S)
                return
            except Exception as error:  # whatever it is, the state may now differ from what is durable
                await self._give_up(number, place, error)
                return
            self._count(number, before, place.owner.learner.counts)
            self.online.news.set()

    async def take_up(self) -> None:
        """Make partitions again whose buckets were rolled out since they were restored."""
        if not self.places or self._stopping:
            return
        try:
            found = await in_thread(self.store.rolled_out)
        except Exception as error:  # whatever it is, learning need not wait for it
            log.info("rollouts cannot be looked for now: %r", error)
            return
        for number, place in list(self.places.items()):
            newer = place.owner.not_taken_up(found)
            if newer or place.owner.elsewhere:
                async with place.lock:
                    what = f"a rollout of {', '.join(newer)}" if newer else "parameters that were made anew"
                    log.info("samples partition %d takes up %s", number, what)
                    place.sought = False
                    await in_thread(place.owner.drop)

    async def _give_up(self, number: int, place: AssignedPartition, error: Exception) -> None:
        """Drop a partition's state; ``tend`` restores it."""
        if isinstance(error, Hopeless):
            place.rest(REFUSED_REST_S)
        elif was_fenced(error):
            place.rest(FENCED_REST_S)
        place.sought, place.trouble = False, repr(error)
        level = logging.ERROR if isinstance(error, Hopeless) else logging.WARNING
        log.log(level, "samples partition %d is made again from what is durable: %r", number, error)
        await in_thread(place.owner.drop)

    async def stop(self, *, within_s: float = 5.0) -> None:
        """Let rounds that are under way end, then drop every owner."""
        self._stopping = True
        self.online.stop()
        ends = {asyncio.ensure_future(let_go(place)) for place in self.places.values()} | self._ending
        if ends:
            await asyncio.wait(ends, timeout=within_s)


async def let_go(place: AssignedPartition) -> None:
    """Drop a partition's owner once its round has ended."""
    async with place.lock:
        await in_thread(place.owner.drop)


def contiguous(batch: Iterable[Delivered], next_offset: int) -> tuple[list[LogRecord], bool]:
    """Return the records that continue a log from ``next_offset``, and whether all did; known ones are left out.

    >>> offsets = [(3, 4), (5, 7), (9, 9)]
    >>> records = [Delivered(0, 1, follows, LogRecord(offset, 0, None, b"")) for follows, offset in offsets]
    >>> [record.offset for record in contiguous(records, 5)[0]], contiguous(records, 5)[1]
    ([7], False)
    """
    fresh: list[LogRecord] = []
    for one in batch:
        if one.record.offset < next_offset:
            continue
        if one.follows > next_offset:
            return fresh, False
        fresh.append(one.record)
        next_offset = one.record.offset + 1
    return fresh, True
