"""The parameters that a deployment learns with: the settings, and the rollouts in force over them."""

from __future__ import annotations

from dataclasses import replace

from schemas.records import Rollout
from streams.logs import LogSource
from streams.parameters import in_force, overruled
from streams.replay.compare import published
from streams.settings import Settings


def deployed(source: LogSource, settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with what was rolled out where the logs come from, and what should be said about it."""
    rollouts = rollouts_on(source)
    buckets = {name: in_force(bucket, rollouts.get(name)) for name, bucket in settings.buckets.items()}
    warnings = [overruled(bucket, rollouts.get(name)) for name, bucket in settings.buckets.items()]
    return replace(settings, buckets=buckets), [text for text in warnings if text is not None]


def rollouts_on(source: LogSource) -> dict[str, Rollout]:
    """Return the newest rollout of each bucket on a source's parameters topic; none when it has no such topic."""
    found: dict[str, Rollout] = {}
    for rollout in published(source, Rollout):
        known = found.get(rollout.bucket)
        if known is None or known.epoch <= rollout.epoch:
            found[rollout.bucket] = rollout
    return found
