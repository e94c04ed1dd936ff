"""Where each bucket of a samples partition goes on: at the head of the log, behind it, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from learner import Bandit
from schemas.records import Progress, Rollout, Snapshot
from streams.learn.lists import SampleColumns
from streams.logs import LogRecord
from streams.parameters import ConfigChanged, Version, before_of, check_config, check_stamp, in_force, restore_model
from streams.settings import Bucket

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SamplesPartition:
    """Which samples partition is learned, and how many there are."""

    topic: str
    topic_id: str
    partition: int = 0
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Durable:
    """The newest of what was published, by bucket; candidates that were promoted may be among it."""

    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    candidates: Mapping[str, Snapshot] = field(default_factory=dict)
    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    progress: Mapping[int, Progress] = field(default_factory=dict)  # by samples partition
    topic_id: str = ""  # of the topic where it was


def within_bounds(
    known: Durable, log_now: SamplesPartition, buckets: Mapping[str, Bucket], *, start: int, end: int
) -> Durable:
    """Return what is known, on a log with these bounds; refuse one that has lost what was learned.

    Once every bucket that learned the lost records is set to a new epoch, reading goes on at the log's new end.
    """
    number, at = log_now.partition, known.progress.get(log_now.partition)
    if at is None or at.samples_topic_id != log_now.topic_id:
        return known
    if at.next_offset < start:
        lost = f"samples partition {number}: offsets {at.next_offset} to {start}"
        log.error("%s were deleted before they were learned; keep samples longer", lost)
    if at.next_offset <= end:
        return known
    beyond = [
        name
        for name, snapshot in sorted(known.snapshots.items())
        if name in buckets
        and snapshot.samples_topic_id == at.samples_topic_id
        and snapshot.samples_offset > end
        and in_force(buckets[name], known.rollouts.get(name)).epoch <= snapshot.epoch
    ]
    if beyond:
        raise ConfigChanged(
            f"samples partition {number} ends at {end}, but was learned to {at.next_offset}: the log has "
            f"lost records; to relearn what is left, raise the epoch of {', '.join(beyond)} in the settings"
        )
    candidates = {name: snapshot for name, snapshot in known.candidates.items() if snapshot.samples_offset <= end}
    progress = {**known.progress, number: replace(at, next_offset=end, refused_to=end)}
    return replace(known, candidates=candidates, progress=progress)


@dataclass(slots=True)
class BucketState:
    """One epoch of a bucket with its stamp: every sample of the bucket below it is learned."""

    bucket: Bucket
    model: Bandit
    stamp: int
    changed: bool
    candidate: bool = False  # an older epoch serves until this one has caught up
    letters_from: int | None = 0  # what it refuses from here on is a dead letter; None: of the older epoch, at the head
    waiting: list[tuple[LogRecord, SampleColumns]] = field(default_factory=list)

    @property
    def version(self) -> Version:
        """The version of the snapshot that would be taken now."""
        return self.bucket.epoch, self.stamp


class Standing(NamedTuple):
    """Where a bucket goes on: ``head`` learns what comes, ``behind`` what the log has from its stamp on."""

    head: BucketState | None = None
    behind: BucketState | None = None
    held: str = ""  # why its settings are not learned


def standing_of(bucket: Bucket, log: SamplesPartition, known: Durable, *, log_start: int) -> Standing:
    """Return where a bucket of the settings goes on, given what is durable.

    Without progress everything is learned from the oldest stamp on, as a whole. Raises SnapshotMissing when less can be
    read than what is known to have been learned; settings that cannot be gone on with hold only their own bucket.
    """
    snapshot, rollout = known.snapshots.get(bucket.name), known.rollouts.get(bucket.name)
    progress = known.progress.get(log.partition)
    learned = None if progress is None else progress.versions.get(bucket.name)
    try:
        wanted = in_force(bucket, rollout)
        if progress is None:
            return Standing(head=_restored(wanted, log, snapshot, learned, log_start))
        if snapshot is not None and snapshot.epoch < wanted.epoch:
            return _succession(bucket, wanted, log, known, log_start)
        state = _restored(wanted, log, snapshot, learned, log_start)
    except ConfigChanged as error:
        return Standing(held=str(error))
    # Between a stamp and the progress there was nothing to learn, if that speaks of this very snapshot.
    if learned == state.version or state.stamp >= progress.next_offset:
        return Standing(head=state)
    state.stamp = max(state.stamp, log_start)  # what was deleted in between nobody can learn any more
    return Standing(behind=state)


def _succession(bucket: Bucket, wanted: Bucket, log: SamplesPartition, known: Durable, log_start: int) -> Standing:
    """Return the epoch that serves at the head, if its parameters are still known, and the next one behind it."""
    snapshot, rollout = known.snapshots[bucket.name], known.rollouts.get(bucket.name)
    candidate, needs = known.candidates.get(bucket.name), 0
    head, learned = None, known.progress[log.partition].versions.get(bucket.name)
    serving = before_of(bucket, rollout, snapshot)
    here = (snapshot.samples_topic_id, snapshot.samples_partition) == (log.topic_id, log.partition)
    if serving is not None and here and learned == snapshot.version:
        head = BucketState(serving, restore_model(serving, snapshot), snapshot.samples_offset, changed=False)
    behind = BucketState(wanted, wanted.model(), log_start, changed=True, candidate=True)
    behind.letters_from = None if head is not None else snapshot.samples_offset
    try:
        if candidate is not None and candidate.epoch >= wanted.epoch:
            check_config(wanted, candidate, topic_id=log.topic_id, partition=log.partition)
            needs = candidate.samples_offset
            behind.model, behind.changed = restore_model(wanted, candidate), False
            behind.stamp = max(needs, log_start)
        ours = rollout is not None and rollout.epoch == wanted.epoch and not rollout.truncated
        if ours and log_start > needs:  # what is rolled out would have learned less than what serves
            raise ConfigChanged(
                f"epoch {wanted.epoch} of bucket {wanted.name!r} needs the samples from offset {needs} on, but their "
                f"log begins at {log_start}: the older epoch goes on; to do with what is left: glimpse rollout "
                f"--bucket {wanted.name} --truncated"
            )
    except ConfigChanged as error:
        return Standing(head=head, held=str(error))
    return Standing(head=head, behind=behind)


def _restored(
    bucket: Bucket, log: SamplesPartition, snapshot: Snapshot | None, learned: Version | None, log_start: int
) -> BucketState:
    """Return a bucket as of its newest snapshot, which must not be older than what is known to have been learned."""
    check_stamp(bucket, snapshot, learned)
    if snapshot is None or snapshot.epoch < bucket.epoch:
        return BucketState(bucket, bucket.model(), log_start, changed=True)
    check_config(bucket, snapshot, topic_id=log.topic_id, partition=log.partition)
    stamp = snapshot.samples_offset
    return BucketState(bucket, restore_model(bucket, snapshot), stamp, changed=False, letters_from=stamp)
