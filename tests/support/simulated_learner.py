"""The learn job on a broker in memory: a member of its group polls for it, as Faust does in production."""

from __future__ import annotations

from kafka import TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError
from memory_broker import MemoryBroker
from owned import one_by_one
from simulated_world import SETTINGS, TOPICS

from streams.broker import JobClocks
from streams.learn.job import owner as owners
from streams.learn.job.owner import FENCED_WAIT_S, NotAssigned
from streams.learn.job.worker import LearnJob

owners.CATCH_UP_POLLS = 1  # so that a candidate needs several rounds


class SimulatedLearner:
    """What Faust does for the learn job: gives it partitions and records, and seeks where it says."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._cluster = broker.cluster
        clocks = JobClocks(monotonic=lambda: broker.cluster.now)
        self.job = LearnJob(SETTINGS, seek=self._seek, broker=broker, clocks=clocks, run=one_by_one)
        self._events: list[tuple[int, int]] = []  # partition and offset of what was fed, as Faust's streams have them
        self._consumer = broker.group_consumer("glimpse-learn", [TOPICS.samples])

    def _seek(self, partition: int, offset: int) -> None:
        for place in self._consumer.assignment():
            if place.partition == partition:
                self._consumer.seek(place, offset)
                self._consumer.resume(place)
                self.job.sought(partition, offset)
                return
        raise NotAssigned(f"samples partition {partition} is not assigned")

    def turn(self) -> None:
        """Poll, feed, checkpoint, maintain."""
        try:
            polled = self._consumer.poll(50)
        except OffsetOutOfRangeError as error:
            polled = {}
            for place in error.args[0]:
                self._consumer.pause(place)
                self.job.owners[place.partition].lost("the log does not have its next record any more")
        except KafkaError:  # the broker may only be restarting
            polled = {}
        if self._consumer.moved():
            polled = {}
            self.assign()
        for place, records in polled.items():
            if not self.job.feed(place.partition, records):
                self._consumer.pause(place)
            self._events += [(place.partition, record.offset) for record in records]
        if self._events:
            count = self._cluster.rng.randint(1, len(self._events))  # a round may end before what was fetched last
            self.job.checkpoint(dict(self._events[:count]))
            del self._events[:count]
        self.job.maintain()
        owners = self.job.owners.values()
        refused = [owner.refused for owner in owners if owner.waits_until > self._cluster.now + FENCED_WAIT_S]
        assert not refused, refused
        kept = [len(owner.pending) for owner in owners if owner.position is None]
        assert not any(kept), f"{kept} records are kept that nobody will learn"

    def lose_place(self) -> None:
        """Have the broker say at the next poll that it does not have the next record of a partition."""
        read = sorted(place for place in self._consumer.assignment() if self._consumer.position(place) is not None)
        if read:
            place: TopicPartition = self._cluster.rng.choice(read)
            self._consumer.seek(place, 1 << 40)

    def assign(self) -> None:
        """Pass on what the group has assigned."""
        for owner in self.job.assign(sorted(place.partition for place in self._consumer.assignment())):
            owner.close()

    def finish(self) -> None:
        """End in an orderly way: nothing is open between two turns."""

    def close(self) -> None:
        self._consumer.close()
