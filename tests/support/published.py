"""What a pure learner has published, as a compacted topic would keep it."""

from __future__ import annotations

from dataclasses import replace

from schemas.records import Rollout
from streams.learn import Durable
from streams.learn.partition_learner import PartitionLearner, Round


def durable(*rounds: Round, rollout: Rollout | None = None) -> Durable:
    """Return what is durable after these rounds."""
    known = Durable()
    for one in rounds:
        known = after(known, one)
    return known if rollout is None else replace(known, rollouts={rollout.bucket: rollout})


def after(known: Durable, one: Round) -> Durable:
    """Return what is durable after one more round; versions must only have grown."""
    for snapshot in one.snapshots:
        before = known.snapshots.get(snapshot.bucket, snapshot)
        assert snapshot.version >= before.version
    candidates = {**known.candidates, **{snapshot.bucket: snapshot for snapshot in one.candidates}}
    return replace(
        known,
        snapshots={**known.snapshots, **{snapshot.bucket: snapshot for snapshot in one.snapshots}},
        candidates={name: found for name, found in candidates.items() if name not in one.promoted},
        progress={**known.progress, one.progress.samples_partition: one.progress},
    )


def caught_up(learner: PartitionLearner, records: list, *, now_ms: int = 0) -> Round:
    """Let a learner read all that is behind its head in one go, and publish."""
    start = learner.behind_from
    if start is not None:
        learner.catch_up([one for one in records if one.offset >= start], read_to=learner.next_offset)
    return learner.publish(now_ms)
