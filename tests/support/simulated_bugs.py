"""Bugs planted by hand, each of which the simulation must find: the mistakes that these jobs are built to avoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka.errors import ProducerFencedError
from memory_group import MemoryGroup
from simulated_learner import SimulatedLearner

from streams.join import Commit
from streams.join.job.owner import JoinOwner
from streams.join.job.starts import JoinRefused, Starts
from streams.join.job.worker import JoinJob
from streams.join.job.writer import JoinWriter
from streams.learn.job.owner import PartitionOwner
from streams.learn.job.pending import PendingRecords
from streams.learn.partition_learner import PartitionLearner


def offsets_before_samples() -> None:
    """Commit the offsets first, and the samples after them."""

    def write(self: Any, records: Any, offsets: Any, member: Any) -> None:
        for given, places in (([], offsets), (records, {})):
            self._writer.begin()
            for record in given:
                self._writer.send(record.topic, key=record.key, value=record.value)
            if places:
                self._writer.send_offsets(places, member)
            self._writer.commit()

    JoinWriter.write = write  # type: ignore[method-assign]


def membership_unsaid() -> None:
    """Commit offsets for the group without saying as which member: Kafka then takes them from anybody."""
    MemoryGroup.check = lambda self, member: None  # type: ignore[method-assign]


def failed_means_lost() -> None:
    """Send a commit again without looking whether it took effect."""

    def still_at(self: JoinOwner, committed: Any) -> bool:
        return committed in (self.committed, self.pending.entries if self.pending else None)

    JoinOwner.still_at = still_at  # type: ignore[method-assign]


def failed_means_done() -> None:
    """Take a commit that failed for one that took effect."""

    def still_at(self: JoinOwner, committed: Any) -> bool:
        if self.pending is not None:
            self.written()
        return True

    JoinOwner.still_at = still_at  # type: ignore[method-assign]


def state_outlives_its_partition() -> None:
    """Keep the state of a partition that somebody else has gone on with."""
    JoinOwner.still_at = lambda self, committed: True  # type: ignore[method-assign]


def rereading_aloud() -> None:
    """Write again, after a restart, what comes of events that were joined before."""
    plain = Commit.decode

    def decode(cls: Any, *entries: Any) -> Any:
        commit, ids = plain(*entries)
        again = commit.logs.map(lambda part: replace(part, processed=part.restart.offset))
        return replace(commit, **again._asdict()), ids

    Commit.decode = classmethod(decode)  # type: ignore[method-assign,assignment]


def seeking_back() -> None:
    """After a rebalance, read a partition that stayed from its commit again."""
    plain = JoinJob._open

    def open_(self: Any, partition: int, committed: Any, bounds: Any) -> bool:
        begun = plain(self, partition, committed, bounds)
        if partition in self.watch.joined:
            for place in self._starts.inputs(partition):
                if committed[place]:
                    self._consumer.seek(place, committed[place].offset)
        return begun

    JoinJob._open = open_  # type: ignore[method-assign]


def beginning_again() -> None:
    """Begin at the beginning wherever a commit is missing, as --from earliest once did."""
    plain = Starts.resume

    def resume(self: Any, consumer: Any, inputs: Any, committed: Any, bounds: Any, open_join: Any, **given: Any) -> Any:
        try:
            return plain(self, consumer, inputs, committed, bounds, open_join, **given)
        except JoinRefused:
            return open_join(Commit.beginning()), Commit.beginning(), "the beginning"

    Starts.resume = resume  # type: ignore[method-assign]


def wall_clock() -> None:
    """Tell idle time by a clock that may be a day ahead."""
    plain = JoinOwner.idle_ms
    JoinOwner.idle_ms = lambda self: plain(self) + 86_400_000  # type: ignore[method-assign]


def fence_ignored() -> None:
    """Answer a fence with a new writer of the same name, and write what was to be written all the same."""
    plain = PartitionOwner._commit

    def commit(self: Any, *given: Any) -> None:
        try:
            plain(self, *given)
        except ProducerFencedError:
            self._writer = self.store.broker.writer(self.name, patience_ms=1)
            plain(self, *given)

    PartitionOwner._commit = commit  # type: ignore[method-assign]


def stamps_unread() -> None:
    """Learn from where the log begins, whatever a bucket's stamp says."""
    plain = PartitionLearner.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        self.next_offset = options.get("log_start", 0)
        for state in self.states.values():
            state.stamp = 0

    PartitionLearner.__init__ = init  # type: ignore[method-assign]


def gaps_unseen() -> None:
    """Learn what was delivered, whether something before it is missing or not."""
    PendingRecords.missing = lambda self, position: False  # type: ignore[method-assign]
    plain = PartitionOwner.hold

    def hold(self: Any) -> None:
        plain(self)
        self._reads = self.learner is not None

    PartitionOwner.hold = hold  # type: ignore[method-assign]


def pending_kept() -> None:
    """Keep what was read of a partition whose learner is dropped, and what is read until it is restored."""
    plain = PartitionOwner._drop

    def drop(self: Any) -> None:
        pending, self.pending = self.pending, PendingRecords()
        plain(self)
        self.pending = pending

    PartitionOwner._drop = drop  # type: ignore[method-assign]


def storm() -> None:
    """Leave the group and join it anew whenever a rebalance was missed, as commits through the group once did."""
    plain = SimulatedLearner.turn

    def turn(self: Any) -> None:
        before = self._consumer._generation
        plain(self)
        if 0 <= before != self._consumer._generation:
            group = self._consumer._group
            group.remove(self._consumer._name, self._consumer._cluster.now)

    SimulatedLearner.turn = turn  # type: ignore[method-assign]


def promoted_at_once() -> None:
    """Let a new epoch serve before it has caught up."""
    plain = PartitionLearner._promote

    def promote(self: PartitionLearner) -> list[str]:
        for state in self.behind.values():
            state.stamp = max(state.stamp, self.next_offset)
        return plain(self)

    PartitionLearner._promote = promote  # type: ignore[method-assign]


def candidate_unread() -> None:
    """Go on from where a candidate's checkpoint stands, without what it had learned."""
    plain = PartitionLearner.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        for state in self.behind.values():
            state.model = state.bucket.model()

    PartitionLearner.__init__ = init  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug
    for bug in (
        offsets_before_samples,
        membership_unsaid,
        failed_means_lost,
        failed_means_done,
        state_outlives_its_partition,
        rereading_aloud,
        seeking_back,
        beginning_again,
        wall_clock,
        fence_ignored,
        stamps_unread,
        gaps_unseen,
        pending_kept,
        storm,
        promoted_at_once,
        candidate_unread,
    )
}
