"""Samples in, snapshots out: one learner per bucket, fed with one partition of the samples topic (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from learner import Bandit, Samples
from schemas.codec import SchemaError, decode
from schemas.records import DeadLetter, Progress, SampleBatch, Snapshot
from streams.logs import LogRecord
from streams.parameters import check_config, restore_model, take_snapshot
from streams.settings import Bucket


@dataclass(frozen=True, slots=True)
class SamplesPartition:
    """Which samples partition is learned, and how many there are."""

    topic: str
    topic_id: str
    partition: int = 0
    partitions: int = 1


@dataclass(slots=True)
class Counts:
    """What a partition's learner has done since it was made."""

    records: int = 0
    lists: int = 0
    rows: int = 0
    dead_letters: int = 0
    repeated: int = 0  # records below a stamp: read again, not learned again


@dataclass(slots=True)
class BucketState:
    """One bucket's learner with its stamp: every sample of the bucket below it is learned."""

    bucket: Bucket
    model: Bandit
    stamp: int
    changed: bool
    waiting: list[tuple[LogRecord, Samples]] = field(default_factory=list)


class PartitionLearner:
    """Learns a samples partition record by record; its state is a function of the set of samples before an offset.

    A bucket starts from its newest snapshot, or, without one of its epoch, from nothing at ``log_start``: a new epoch
    relearns what the log still has. Records below a bucket's stamp are skipped, so anything may be read again: a bucket
    that the last learner of this partition did not have is caught up from its own stamp. What cannot be learned becomes
    a dead letter and changes no sum.

    Parameters
    ----------
    buckets
        The buckets of this partition, by name.
    log
        The partition.
    snapshots, progress
        The newest of what was published, if anything.
    log_start
        The first offset that the log still has.
    """

    def __init__(
        self,
        buckets: Mapping[str, Bucket],
        log: SamplesPartition,
        *,
        snapshots: Mapping[str, Snapshot] | None = None,
        progress: Progress | None = None,
        log_start: int = 0,
    ) -> None:
        self.log = log
        self.counts = Counts()
        self.dead_letters: list[DeadLetter] = []
        self.next_offset = log_start
        learned: list[str] = []
        self._heard = 0  # what was refused below has its dead letter already
        if progress is not None and progress.samples_topic_id == log.topic_id:
            self.next_offset, learned = max(progress.next_offset, log_start), progress.buckets
            self._heard = progress.next_offset
        self.states: dict[str, BucketState] = {}
        for name, bucket in buckets.items():
            snapshot = (snapshots or {}).get(name)
            if snapshot is None or snapshot.epoch < bucket.epoch:  # relearned from what the log still has
                self.states[name] = BucketState(bucket, bucket.model(), log_start, changed=True)
                self.next_offset = log_start
            else:
                check_config(bucket, snapshot, topic_id=log.topic_id, partition=log.partition)
                self.states[name] = BucketState(
                    bucket, restore_model(bucket, snapshot), snapshot.samples_offset, changed=False
                )
                if learned and name not in learned:  # whoever learned last did not know it, and refused its samples
                    self.next_offset = min(self.next_offset, max(snapshot.samples_offset, log_start))

    def apply(self, records: Iterable[LogRecord]) -> None:
        """Learn records in the order of the log; those before ``next_offset`` are already learned and skipped."""
        for record in records:
            self.counts.records += 1
            if record.offset < self.next_offset:
                self.counts.repeated += 1
                continue
            self.next_offset = record.offset + 1
            try:
                self._take(record)
            except (SchemaError, ValueError) as error:
                self._refuse(record, str(error))
        for state in self.states.values():
            self._learn(state)

    def _take(self, record: LogRecord) -> None:
        if record.value is None:
            raise ValueError("the record is empty; a sample batch was expected")
        batch: SampleBatch = decode(record.value, SampleBatch)
        state = self.states.get(batch.bucket)
        if state is None:
            known = ", ".join(sorted(self.states)) or "none"
            raise ValueError(
                f"bucket {batch.bucket!r} is not learned on partition {self.log.partition} of {self.log.partitions} "
                f"(there: {known}); check the buckets in the settings and the key of the record"
            )
        if record.offset < state.stamp:
            self.counts.repeated += 1
            return
        if batch.dim != state.bucket.dim and state.model.dim:
            raise ValueError(f"contexts have {batch.dim} features, bucket {batch.bucket!r} has {state.bucket.dim}")
        state.waiting.append((record, samples_of(batch)))

    def _learn(self, state: BucketState) -> None:
        """Add what waits as one batch; should a record be refused, one by one, so that only that record is."""
        waiting, state.waiting = state.waiting, []
        if not waiting:
            return
        try:
            together = Samples.concat([samples for _, samples in waiting])
            state.model.learn(together)
        except ValueError as refusal:
            if len(waiting) == 1:
                self._refuse(waiting[0][0], str(refusal))
                return
            for one in waiting:
                state.waiting = [one]
                self._learn(state)
            return
        state.changed = True
        self.counts.lists += len(together)
        self.counts.rows += together.rows

    def _refuse(self, record: LogRecord, reason: str) -> None:
        if record.offset < self._heard:
            return
        self.counts.dead_letters += 1
        place = (self.log.topic, self.log.partition, record.offset, record.timestamp)
        self.dead_letters.append(DeadLetter(*place, record.key, record.value, reason))

    def publish(self, now_ms: int) -> tuple[list[Snapshot], Progress, list[DeadLetter]]:
        """Return what must become durable together: changed buckets, progress, refusals; and count it as published.

        Should that fail, this learner must be dropped and made again from what is durable.
        """
        changed = [state for state in self.states.values() if state.changed]
        snapshots = []
        for state in changed:
            state.stamp, state.changed = max(state.stamp, self.next_offset), False
            snapshots.append(
                take_snapshot(
                    state.model,
                    state.bucket,
                    samples_offset=state.stamp,
                    topic_id=self.log.topic_id,
                    partition=self.log.partition,
                    published_at_ms=now_ms,
                )
            )
        refused, self.dead_letters = self.dead_letters, []
        progress = Progress(self.log.topic_id, self.log.partition, self.next_offset, now_ms, sorted(self.states))
        return snapshots, progress, refused


def samples_of(batch: SampleBatch) -> Samples:
    """Return the columns of a sample batch; its lists are numbered, as their ids are not needed for learning."""
    return Samples(
        item=batch.items_array.astype(np.int64, copy=False),
        position=batch.positions_array.astype(np.int64),
        last_click=batch.last_clicks_array.astype(np.int64),
        reward=batch.rewards_array,
        context=batch.contexts_array,
        size=batch.sizes_array.astype(np.int64),
        list_id=np.arange(len(batch.sizes)),
        sign=batch.signs_array.astype(np.int64),
    )
