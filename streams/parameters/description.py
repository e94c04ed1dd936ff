"""A snapshot for people and programs: what it is, how old, what it holds, and what the settings say otherwise."""

from __future__ import annotations

from typing import Any

from schemas.records import Progress, Rollout, Snapshot
from streams.parameters.rollouts import overruled
from streams.settings import Bucket


def describe(snapshot: Snapshot, bucket: Bucket | None, *, where: str, now_ms: int) -> dict[str, Any]:
    """Return a snapshot as JSON can hold it, with the table it was learned with if ``bucket`` still has that one."""
    table = None
    if bucket is not None and bucket.examination is not None:
        known = bucket.model().settings().get("examination") == snapshot.examination_sha256
        table = bucket.examination.tolist() if known else None
    same = ("positions", "dim", "alpha", "ridge", "beta", "phi", "context_scale", "reward_scale")
    return {
        "bucket": snapshot.bucket,
        "algorithm": snapshot.algorithm,
        "version": f"{snapshot.epoch}.{snapshot.samples_offset}",
        "where": where,
        "published_at_ms": snapshot.published_at_ms,
        "age_s": max(0.0, (now_ms - snapshot.published_at_ms) / 1000),
        "lists": snapshot.rounds,
        **{name: getattr(snapshot, name) for name in same},
        "theta": snapshot.theta_array.tolist(),
        "table": table,
        "table_sha256": snapshot.examination_sha256,
        "encoder_sha256": snapshot.encoder_sha256,
        "sha256": snapshot.sha256,
        "samples": f"partition {snapshot.samples_partition} of topic {snapshot.samples_topic_id}",
    }


def describe_rollout(bucket: Bucket, rollout: Rollout) -> dict[str, Any]:
    """Return a rollout as JSON can hold it."""
    return {
        "epoch": rollout.epoch,
        "written_at_ms": rollout.written_at_ms,
        "in_force": bucket.epoch <= rollout.epoch,
        "warning": overruled(bucket, rollout),
    }


def describe_candidate(candidate: Snapshot, progress: Progress | None) -> dict[str, Any]:
    """Return how far an epoch has got that does not serve yet, as JSON can hold it."""
    head = None if progress is None else progress.next_offset
    return {
        "epoch": candidate.epoch,
        "algorithm": candidate.algorithm,
        "lists": candidate.rounds,
        "samples_offset": candidate.samples_offset,
        "of": head,
        "share": min(1.0, candidate.samples_offset / head) if head else None,
        "sha256": candidate.sha256,
    }
