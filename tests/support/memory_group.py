"""A consumer group in memory: generations, rebalances, sessions that expire, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka import TopicPartition
from kafka.errors import IllegalGenerationError, UnknownMemberIdError

from streams.broker import GroupOffset

SESSION_S, REBALANCE_S = 10.0, 20.0


@dataclass
class Member:
    """One member as the coordinator knows it."""

    topics: Sequence[str]
    heard_at: float
    assigned: set[TopicPartition] = field(default_factory=set)


class MemoryGroup:
    """Members and what they share; a rebalance waits for all of them to join again, or until it times out."""

    def __init__(self) -> None:
        self.generation = 0
        self.rebalances = 0
        self.members: dict[str, Member] = {}
        self.offsets: dict[TopicPartition, GroupOffset] = {}
        self.pending: dict[int, dict[TopicPartition, GroupOffset]] = {}  # by transaction
        self._joined: set[str] | None = None  # while a rebalance is under way: who has joined again
        self._since = 0.0

    @property
    def rebalancing(self) -> bool:
        return self._joined is not None

    def add(self, name: str, topics: Sequence[str], now: float) -> None:
        self.members[name] = Member(topics, now)
        self.disturb(now)

    def remove(self, name: str, now: float) -> None:
        if self.members.pop(name, None) is not None:
            self.disturb(now)

    def disturb(self, now: float) -> None:
        """Begin a rebalance."""
        if self._joined is None:
            self._joined, self._since = set(), now
            self.rebalances += 1

    def rejoin(self, name: str, partitions: Mapping[str, int]) -> None:
        assert self._joined is not None
        self._joined.add(name)
        if self._joined >= set(self.members):
            self._complete(partitions)

    def expire(self, now: float, partitions: Mapping[str, int]) -> None:
        """Throw out whoever is silent, or does not join in time."""
        for name in [name for name, member in self.members.items() if now - member.heard_at > SESSION_S]:
            self.remove(name, now)
        if self._joined is not None and now - self._since > REBALANCE_S:
            for name in set(self.members) - self._joined:
                del self.members[name]
            self._complete(partitions)

    def _complete(self, partitions: Mapping[str, int]) -> None:
        """Share every topic's partitions in ranges."""
        self.generation += 1
        self._joined = None
        names = sorted(self.members)
        for member in self.members.values():
            member.assigned = set()
        for topic in sorted({topic for member in self.members.values() for topic in member.topics}):
            each, more = divmod(partitions[topic], len(names))
            start = 0
            for number, name in enumerate(names):
                stop = start + each + (number < more)
                self.members[name].assigned |= {TopicPartition(topic, p) for p in range(start, stop)}
                start = stop

    def check(self, member: tuple[str, str, int]) -> None:
        """Refuse a commit of who is not a member of this generation."""
        _, name, generation = member
        if name not in self.members:
            raise UnknownMemberIdError
        if generation != self.generation:
            raise IllegalGenerationError
