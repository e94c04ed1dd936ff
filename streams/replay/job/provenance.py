"""Provenance of a snapshot: rebuilt from the samples log and compared bit by bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from learner import Bandit
from schemas.records import Snapshot
from streams.broker import partition_of
from streams.logs import LogSource, Mark, Range, RangeError
from streams.parameters import Newest, Version, before_of, check_config, in_force, verify
from streams.replay.compare import published
from streams.replay.job.replay import replay
from streams.replay.plan import ReplayError, plan_of, rollouts_on
from streams.settings import Settings

_NAME = re.compile(r"([A-Za-z0-9._-]+)[:@]([0-9]{1,10})\.([0-9]{1,19})")


class Rebuilt(NamedTuple):
    """A snapshot that was made again from the log."""

    name: str
    model: Bandit
    published: Snapshot | None  # None when compaction has removed it, so that there is nothing to compare with


class NotTheSame(ReplayError):
    """A snapshot that the log does not give, and where the two differ."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Bucket and version of a snapshot."""

    bucket: str
    version: Version

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Return what ``BUCKET:EPOCH.OFFSET`` names.

        >>> Wanted.parse("ubm:1.4200")
        Wanted(bucket='ubm', version=(1, 4200))
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise ReplayError(f"{text!r} names no snapshot; wanted BUCKET:EPOCH.OFFSET, as in ubm:1.4200")
        return cls(match[1], (int(match[2]), int(match[3])))

    def __str__(self) -> str:
        return f"{self.bucket}:{self.version[0]}.{self.version[1]}"


def rebuild(
    source: LogSource,
    settings: Settings,
    wanted: Wanted,
    *,
    say: Callable[[int, int], None] = lambda passed, total: None,
) -> Rebuilt:
    """Learn a bucket's samples up to a version again, and hold the outcome against the snapshot that was published."""
    if wanted.bucket not in settings.buckets:
        raise ReplayError(
            f"no bucket {wanted.bucket!r} in the settings; there: {', '.join(settings.buckets) or 'none'}"
        )
    partition = partition_of(settings.buckets[wanted.bucket].learns_from, source.partitions("samples"))
    gathered = Newest()
    for record in published(source, Snapshot):
        if (record.bucket, record.version) == (wanted.bucket, wanted.version):
            gathered.add(record)
    snapshot = gathered.by_bucket.get(wanted.bucket)
    rollout = rollouts_on(source).get(wanted.bucket)
    bucket = in_force(settings.buckets[wanted.bucket], rollout)
    if snapshot is not None:
        verify(snapshot)
        older = before_of(settings.buckets[wanted.bucket], rollout, snapshot) if snapshot.epoch < bucket.epoch else None
        bucket = replace(older or bucket, alpha=snapshot.alpha)  # how to rank, not what was learned
    bucket = replace(bucket, epoch=wanted.version[0])
    if snapshot is not None:
        check_config(bucket, snapshot, topic_id=source.topic_id("samples"), partition=partition)
    first, end = source.bounds("samples", partition)
    offset = wanted.version[1]
    if offset > end:
        raise RangeError(
            f"{wanted} holds samples up to offset {offset}, but samples {partition} on {source.where()} ends at {end}: "
            f"offsets {end} to {offset - 1} are missing"
        )
    if offset <= first:
        if first:
            raise RangeError(_cut(wanted, source, partition, first))
        model = bucket.model()
    else:
        plan, _ = plan_of(
            source,
            replace(settings, buckets={**settings.buckets, wanted.bucket: bucket}),
            samples=True,
            only=[wanted.bucket],
            within=Range(stop=[Mark(None, "samples", partition, offset)]),
        )
        ours = {("samples", partition): plan.ranges["samples", partition]}
        model = replay(replace(plan, ranges=ours), say=say).models[wanted.bucket]
    if snapshot is not None and model.sha256() != snapshot.sha256:
        differs = _difference(wanted, model, snapshot)
        raise NotTheSame(f"{differs}; {_cut(wanted, source, partition, first)}" if first else differs)
    return Rebuilt(str(wanted), model, snapshot)


def _cut(wanted: Wanted, source: LogSource, partition: int, first: int) -> str:
    return (
        f"samples {partition} on {source.where()} begins at offset {first}, so offsets 0 to {first - 1} are missing, "
        f"which {wanted} may hold; was retention too short? An archive that was made earlier has them"
    )


def _difference(wanted: Wanted, model: Bandit, snapshot: Snapshot) -> str:
    if model.rounds != snapshot.rounds:
        return f"{wanted} holds {snapshot.rounds} lists, the log gives {model.rounds} up to the same offset"
    ours, theirs = model.state(), snapshot.state_arrays
    for name, array in ours.items():
        if name not in theirs or array.shape != theirs[name].shape:
            return f"{wanted} has another shape of {name} than the log gives"
        cells = np.flatnonzero(array != theirs[name])
        if len(cells):
            cell = int(cells[0])
            return (
                f"{wanted} differs from what the log gives in {len(cells)} of {array.size} numbers of {name}; "
                f"the first, number {cell}, is {theirs[name].flat[cell]} there and {array.flat[cell]} here"
            )
    return f"{wanted} has the sums that the log gives, but other settings"
