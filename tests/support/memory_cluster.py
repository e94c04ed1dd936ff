"""What the broker in memory holds: topics, groups, transactions, and every call of a client, which a fault may meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.errors import (
    KafkaTimeoutError,
)
from memory_group import MemoryGroup
from memory_log import MemoryLog

T = TypeVar("T")
TRANSACTION_S = 10.0


@dataclass
class MemoryTopic:
    """A topic: its incarnation, its logs, and whose time stamps they bear."""

    topic_id: str
    logs: list[MemoryLog]
    append_time: bool = True
    after_max_ms: int = 1 << 62


@dataclass
class Transaction:
    """One transaction of a writer."""

    number: int
    began_at: float
    places: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    committed: bool | None = None  # None while it is open; then its markers are on their way


@dataclass
class WriterName:
    """What the coordinator knows of a transactional id."""

    epoch: int = 0
    transaction: Transaction | None = None


class MemoryCluster:
    """Topics, groups, transactions and the time.

    ``interfere`` is asked at every call, with the client and what it calls, and returns what goes wrong: "" for
    nothing, "request" or "answer" for what is lost; it may raise, and let others go first.
    """

    def __init__(self, rng: Random, *, interfere: Callable[[str, str], str] = lambda client, name: "") -> None:
        self.rng, self.interfere = rng, interfere
        self.now = 1_700_000_000.0
        self.topics: dict[str, MemoryTopic] = {}
        self.groups: dict[str, MemoryGroup] = {}
        self.writers: dict[str, WriterName] = {}
        self.alive: dict[str, str] = {}  # member -> client, of those whose heartbeats are sent
        self.transactions = self.members = self.calls = 0
        self._ending: list[Transaction] = []

    def add_topic(self, name: str, partitions: int, **options: Any) -> None:
        self.topics[name] = MemoryTopic(
            f"id-{self.rng.getrandbits(32):x}", [MemoryLog() for _ in range(partitions)], **options
        )

    def log(self, place: TopicPartition) -> MemoryLog:
        return self.topics[place.topic].logs[place.partition]

    def group(self, name: str) -> MemoryGroup:
        return self.groups.setdefault(name, MemoryGroup())

    def counts(self) -> dict[str, int]:
        return {name: len(topic.logs) for name, topic in self.topics.items()}

    def call(self, client: str, name: str, effect: Callable[[], T]) -> T:
        """Do what a client asks, unless something goes wrong on the way."""
        self.calls += 1
        wrong = self.interfere(client, name)
        if wrong == "request":
            raise KafkaTimeoutError(f"{name} was not answered")
        result = effect()
        if wrong == "answer":
            raise KafkaTimeoutError(f"the answer to {name} was lost")
        return result

    def sleep(self, seconds: float) -> None:
        """Let time pass: sessions and transactions time out, markers arrive, heartbeats are sent."""
        self.now += seconds
        counts = self.counts()
        for group in self.groups.values():
            for name, member in group.members.items():
                if name in self.alive:
                    member.heard_at = self.now
            group.expire(self.now, counts)
        for writer in self.writers.values():
            open_one = writer.transaction
            if open_one is not None and open_one.committed is None and self.now - open_one.began_at > TRANSACTION_S:
                writer.epoch += 1  # as Kafka does, so that the writer cannot go on with it
                self.end(open_one, committed=False)
        while self._ending and self.rng.random() < 0.7:
            self.finish(self._ending[0])

    def end(self, transaction: Transaction, *, committed: bool) -> None:
        """Decide a transaction; its markers may take a while."""
        transaction.committed = committed
        self._ending.append(transaction)

    def finish(self, transaction: Transaction) -> None:
        """Let a decided transaction's markers arrive."""
        if transaction not in self._ending:
            return
        self._ending.remove(transaction)
        committed = bool(transaction.committed)
        for place in sorted(transaction.places):
            self.log(place).mark(transaction.number, committed=committed)
        for name in transaction.groups:
            group = self.groups[name]
            offsets = group.pending.pop(transaction.number, {})
            if committed:
                group.offsets |= offsets

    def stable_offsets(self, group: MemoryGroup, places: Sequence[TopicPartition]) -> None:
        """Wait until no transaction is about to change these offsets."""
        for _ in range(30):
            if not any(set(pending) & set(places) for pending in group.pending.values()):
                return
            self.sleep(1.0)
        raise KafkaTimeoutError("offsets are not stable")
