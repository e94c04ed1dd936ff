"""The real learner below Faust, on a broker in memory: its owners and rounds, fed by a member of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafka.errors import KafkaError
from memory_broker import MemoryBroker
from simulated_world import SETTINGS, TOPICS

from streams.learn.job import owner, rounds
from streams.learn.job.rounds import Delivered, Learning
from streams.learn.job.store import Store

T = TypeVar("T")


async def inline(work: Callable[..., T], *args: object) -> T:
    """Call at once what a worker calls in a thread of its own: a simulation has one thread."""
    return work(*args)


rounds.in_thread = inline  # type: ignore[assignment]
owner.CATCH_UP_POLLS = 1  # so that a candidate needs several rounds


class InlineLoop:
    """An event loop for what never has to wait: tasks run when they are made; its clock is the cluster's."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.time = now

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # type: ignore[arg-type]
        try:
            work.send(None)
        except StopIteration:
            return
        finally:
            asyncio._set_running_loop(before)
        raise AssertionError("a simulated learner waits for nobody")

    def create_task(self, work: Coroutine[Any, Any, None]) -> Ended:
        self.run(work)
        return Ended()


class Ended:
    """A task that has ended."""

    def add_done_callback(self, call: Callable[[Ended], None]) -> None:
        call(self)


class LearnJob:
    """What Faust does for the learner: gives it partitions and records, and seeks where it says."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.learning = Learning(SETTINGS, seek=self._seek)
        self.learning.store = Store(SETTINGS, broker=broker)
        self._loop = InlineLoop(lambda: broker.cluster.now)
        self._consumer = broker.group_consumer("glimpse-learn", [TOPICS.samples])
        self._seeks = 0
        self._trails: dict[int, tuple[int, int]] = {}  # number of the last seek, and where delivery has got to

    async def _seek(self, partition: int, offset: int) -> int:
        for place in self._consumer.assignment():
            if place.partition == partition:
                self._consumer.seek(place, offset)
                self._consumer.resume(place)
                self._seeks += 1
                self._trails[partition] = self._seeks, offset
                return self._seeks
        raise LookupError(f"samples partition {partition} is not assigned")

    def turn(self) -> None:
        """Poll once, and learn what came."""
        try:
            polled = self._consumer.poll(50)
        except KafkaError:  # the broker may only be restarting
            polled = {}
        if self._consumer.moved():
            self._trails.clear()
            polled = {}
            self._loop.run(self._assign())
        for place, records in polled.items():
            seek, follows = self._trails[place.partition]
            batch = []
            for record in records:
                batch.append(Delivered(place.partition, seek, follows, record))
                follows = record.offset + 1
            self._trails[place.partition] = seek, follows
            self._loop.run(self.learning._round(place.partition, batch))
        for number, place in list(self.learning.places.items()):
            self._loop.run(self.learning._tend(number, place))
        self._loop.run(self.learning.take_up())
        for number, place in list(self.learning.places.items()):
            if place.ready and place.owner.behind:
                self._loop.run(self.learning._catch_up(number, place))
        refused = [one.trouble for one in self.learning.places.values() if one.rests_until > self._loop.time() + 3.0]
        assert not refused, refused

    async def _assign(self) -> None:
        self.learning.assign(sorted(place.partition for place in self._consumer.assignment()))

    def finish(self) -> None:
        """End in an orderly way: nothing is open between two turns."""

    def close(self) -> None:
        self._consumer.close()
