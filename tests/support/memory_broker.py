"""A broker in memory behind the port: what a simulation drives, and what its clients see of it.

Every call of a client goes through ``MemoryCluster.call``, where the simulation may let others go first, lose the
request or its answer, or crash the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    IllegalStateError,
    InvalidTimestampError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    ProducerFencedError,
)
from kafka.partitioner.default import murmur2
from memory_cluster import MemoryCluster, Transaction, WriterName
from memory_group import MemoryGroup

from streams.broker import GroupOffset, TopicState

RECORD_BYTES = 1_048_588
ANSWERS_S = 0.005


class MemoryBroker:
    """The cluster as one client sees it through the port."""

    def __init__(self, cluster: MemoryCluster, client: str, *, prefix: str = "") -> None:
        self.cluster, self.client, self._prefix = cluster, client, prefix

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        def effect() -> dict[str, TopicState]:
            there = self.cluster.topics
            return {
                name: TopicState(there[name].topic_id, len(there[name].logs), True) for name in names if name in there
            }

        return self.cluster.call(self.client, "topics", effect)

    def consumer(self) -> MemoryConsumer:
        return MemoryConsumer(self.cluster, self.client)

    def group_consumer(self, group: str, topics: Sequence[str]) -> MemoryGroupConsumer:
        return MemoryGroupConsumer(self.cluster, self.client, self._prefix + group, topics)

    def writer(self, name: str, *, patience_ms: int) -> MemoryWriter:
        return self.cluster.call(self.client, "init", lambda: MemoryWriter(self.cluster, self.client, name))


class MemoryConsumer:
    """A reader by hand."""

    def __init__(self, cluster: MemoryCluster, client: str) -> None:
        self._cluster, self._client = cluster, client
        self._positions: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        self._told: dict[TopicPartition, int] = {}

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._positions = {place: self._cluster.log(place).start for place in places}

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Any]]:
        fetched = self._cluster.call(self._client, "poll", self._fetch)
        found = {}
        for place, (records, after, end) in fetched.items():  # an answer that is lost moves nobody
            self._positions[place], self._told[place] = after, end
            if records:
                found[place] = records
        self._cluster.sleep(ANSWERS_S if found else timeout_ms / 1000)
        return found

    def _fetch(self) -> dict[TopicPartition, tuple[list[Any], int, int]]:
        found = {}
        for place, position in self._positions.items():
            if place in self._paused or position is None or self._cluster.rng.random() < 0.2:
                continue
            log = self._cluster.log(place)
            if not log.start <= position <= log.end:
                raise OffsetOutOfRangeError({place: position})
            found[place] = *log.read(position, self._cluster.rng.randint(1, 8)), log.end
        return found

    def _known(self, place: TopicPartition) -> None:
        if place not in self._positions:
            raise IllegalStateError(f"{place} is not assigned")

    def position(self, place: TopicPartition) -> int | None:
        self._known(place)
        return self._positions[place]

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._known(place)
        self._positions[place] = offset

    def bounds(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        logs = {place: self._cluster.log(place) for place in places}
        ask = lambda: {place: (log.start, log.end) for place, log in logs.items()}  # noqa: E731
        return self._cluster.call(self._client, "bounds", ask)

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int | None]:
        logs = {place: self._cluster.log(place) for place in places}
        return {
            place: next((record.offset for record in log.records if record.timestamp >= time_ms), None)
            for place, log in logs.items()
        }

    def topic_ids(self, names: Iterable[str]) -> Mapping[str, str]:
        there = self._cluster.topics
        ask = lambda: {name: there[name].topic_id for name in names if name in there}  # noqa: E731
        return self._cluster.call(self._client, "topics", ask)

    def close(self) -> None:
        self._positions = {}


class MemoryGroupConsumer(MemoryConsumer):
    """A member of a group."""

    def __init__(self, cluster: MemoryCluster, client: str, group: str, topics: Sequence[str]) -> None:
        super().__init__(cluster, client)
        self._group_name, self._topics = group, topics
        self._name, self._generation, self._moved, self._joining = "", -1, False, False

    @property
    def _group(self) -> MemoryGroup:
        return self._cluster.group(self._group_name)

    def _fetch(self) -> dict[TopicPartition, tuple[list[Any], int, int]]:
        group, cluster = self._group, self._cluster
        if self._name not in group.members:
            cluster.alive.pop(self._name, None)
            cluster.members += 1
            self._name = f"{self._client}-{cluster.members}"
            cluster.alive[self._name] = self._client
            group.add(self._name, self._topics, cluster.now)
        if group.rebalancing:
            self._moved = self._joining = True
            group.rejoin(self._name, cluster.counts())
            if group.rebalancing:
                return {}
        if self._generation != group.generation:
            self._generation, self._moved, self._joining = group.generation, True, False
            self._positions = dict.fromkeys(sorted(group.members[self._name].assigned))
            self._paused = set(self._positions)
            self._told = {}
            return {}
        for place, position in self._positions.items():
            if position is None:
                entry = group.offsets.get(place)
                self._positions[place] = entry.offset if entry else None
                self._moved |= entry is None
        return super()._fetch()

    def moved(self) -> bool:
        moved, self._moved = self._moved, False
        return moved

    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def member(self) -> Any | None:
        return (self._group_name, self._name, self._generation) if self._generation >= 0 and not self._joining else None

    def committed(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, GroupOffset | None]:
        wanted = list(places)

        def ask() -> dict[TopicPartition, GroupOffset | None]:
            self._cluster.stable_offsets(self._group, wanted)
            return {place: self._group.offsets.get(place) for place in wanted}

        return self._cluster.call(self._client, "committed", ask)

    def end(self, place: TopicPartition) -> int | None:
        self._known(place)
        return self._told.get(place)

    def pause(self, place: TopicPartition) -> None:
        self._known(place)
        self._paused.add(place)

    def resume(self, place: TopicPartition) -> None:
        self._known(place)
        self._paused.discard(place)

    def close(self) -> None:
        super().close()
        self._cluster.alive.pop(self._name, None)
        with suppress(KafkaTimeoutError):  # then its session expires
            self._cluster.call(self._client, "leave", lambda: self._group.remove(self._name, self._cluster.now))


class MemoryWriter:
    """A transactional producer; making one fences any older one of its name."""

    def __init__(self, cluster: MemoryCluster, client: str, name: str) -> None:
        self._cluster, self._client = cluster, client
        self._known = known = cluster.writers.setdefault(name, WriterName())
        if known.transaction is not None:
            if known.transaction.committed is None:
                cluster.end(known.transaction, committed=False)
            cluster.finish(known.transaction)
            known.transaction = None
        known.epoch += 1
        self._epoch = known.epoch

    def _call(self, name: str, effect: Callable[[Transaction], None]) -> None:
        def checked() -> None:
            known, cluster = self._known, self._cluster
            if known.epoch != self._epoch:
                raise ProducerFencedError
            if known.transaction is not None and known.transaction.committed is not None:
                cluster.finish(known.transaction)
                known.transaction = None
            if known.transaction is None:
                cluster.transactions += 1
                known.transaction = Transaction(cluster.transactions, cluster.now)
            effect(known.transaction)

        self._cluster.call(self._client, name, checked)

    def begin(self) -> None:
        pass  # the broker hears of it with the first record

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        partition: int = -1,
    ) -> None:
        cluster, to = self._cluster, self._cluster.topics[topic]
        if partition < 0:
            hashed = murmur2(key) if key is not None else cluster.rng.getrandbits(31)
            partition = (hashed & 0x7FFFFFFF) % len(to.logs)
        if len(key or b"") + len(value or b"") > RECORD_BYTES:
            raise MessageSizeTooLargeError
        now_ms = int(cluster.now * 1000)
        stamp = now_ms if to.append_time or timestamp_ms is None else timestamp_ms
        if stamp - now_ms > to.after_max_ms:
            raise InvalidTimestampError

        def effect(transaction: Transaction) -> None:
            transaction.places.add(TopicPartition(topic, partition))
            to.logs[partition].append(stamp, key, value, transaction=transaction.number)

        self._call("send", effect)

    def send_offsets(self, offsets: Mapping[TopicPartition, GroupOffset], member: Any) -> None:
        def effect(transaction: Transaction) -> None:
            group = self._cluster.group(member[0])
            group.check(member)
            transaction.groups.add(member[0])
            group.pending.setdefault(transaction.number, {}).update(offsets)

        self._call("offsets", effect)

    def commit(self) -> None:
        self._call("commit", lambda transaction: self._cluster.end(transaction, committed=True))

    def abandon(self) -> None:
        self._epoch = -1
