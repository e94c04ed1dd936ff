"""Samples in, snapshots out: one learner per bucket, fed with one partition of the samples topic (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from learner import Bandit, Samples
from schemas.codec import SchemaError, decode, encode
from schemas.records import BucketStamp, DeadLetter, Progress, SampleBatch, Snapshot
from streams.learn.lists import learn_lists, samples_of, some_lists
from streams.logs import LogRecord
from streams.parameters import Version, check_config, check_stamp, restore_model, take_snapshot
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
    waiting: list[tuple[LogRecord, SampleBatch]] = field(default_factory=list)

    @property
    def version(self) -> Version:
        """The version of the snapshot that would be taken now."""
        return self.bucket.epoch, self.stamp


class PartitionLearner:
    """Learns a samples partition record by record; its state is a function of the set of samples before an offset.

    A bucket starts from its newest snapshot, or, without one of its epoch, from nothing at ``log_start``: a new epoch
    relearns what the log still has. Records below a bucket's stamp are skipped, so anything may be read again: a bucket
    that the last learner of this partition did not have is caught up from its own stamp. A list that cannot be learned
    becomes a dead letter and changes no sum, a correction as a whole; the other lists of its record are learned.

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
        at = progress if progress is not None and progress.samples_topic_id == log.topic_id else None
        learned = at.versions if at is not None else {}
        self._refused_to = max(at.refused_to, at.next_offset) if at is not None else 0  # below, letters are written
        self.states: dict[str, BucketState] = {}
        starts = []
        for name, bucket in buckets.items():
            state = _restored(bucket, log, (snapshots or {}).get(name), learned.get(name), log_start)
            self.states[name] = state
            # Between a stamp and the progress there was nothing to learn, if that speaks of this very snapshot.
            whole = at is not None and learned.get(name) == state.version
            starts.append(at.next_offset if at is not None and whole else state.stamp)
        nowhere = at.next_offset if at is not None else log_start
        self.next_offset = max(min(starts, default=nowhere), log_start)

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
        state.waiting.append((record, batch))

    def _learn(self, state: BucketState) -> None:
        """Add what waits as one batch; should something be refused, record by record."""
        waiting, state.waiting = state.waiting, []
        if not waiting:
            return
        try:
            together = Samples.concat([samples_of(batch) for _, batch in waiting])
            state.model.learn(together)
            self._count(state, len(together), together.rows)
        except ValueError:
            for record, batch in waiting:
                self._learn_alone(state, record, batch)

    def _learn_alone(self, state: BucketState, record: LogRecord, batch: SampleBatch) -> None:
        refused, lists = learn_lists(state.model, batch), len(batch.impression_ids)
        if refused:
            bad = some_lists(batch, list(refused))
            reason = f"{len(refused)} of {lists} lists, the first since {next(iter(refused.values()))}"
            self._refuse(record._replace(value=encode(bad)), reason)
            batch = some_lists(batch, [number for number in range(lists) if number not in refused])
        if batch.impression_ids:
            self._count(state, len(batch.impression_ids), len(batch.positions))

    def _count(self, state: BucketState, lists: int, rows: int) -> None:
        state.changed = True
        self.counts.lists += lists
        self.counts.rows += rows

    def _refuse(self, record: LogRecord, reason: str) -> None:
        if record.offset < self._refused_to:
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
        self._refused_to = max(self._refused_to, self.next_offset)
        stamps = [BucketStamp(name, *state.version) for name, state in sorted(self.states.items())]
        progress = Progress(
            self.log.topic_id, self.log.partition, self.next_offset, now_ms, stamps, refused_to=self._refused_to
        )
        return snapshots, progress, refused


def _restored(
    bucket: Bucket, log: SamplesPartition, snapshot: Snapshot | None, learned: Version | None, log_start: int
) -> BucketState:
    """Return a bucket as of its newest snapshot, which must not be older than what is known to have been learned."""
    check_stamp(bucket, snapshot, learned)
    if snapshot is None or snapshot.epoch < bucket.epoch:  # relearned from what the log still has
        return BucketState(bucket, bucket.model(), log_start, changed=True)
    check_config(bucket, snapshot, topic_id=log.topic_id, partition=log.partition)
    return BucketState(bucket, restore_model(bucket, snapshot), snapshot.samples_offset, changed=False)
