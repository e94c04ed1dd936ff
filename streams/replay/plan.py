"""What to replay and how: the buckets as they are deployed, the logs and the range of each partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from schemas.records import Rollout
from streams.logs import LogSource, Range, RangeError
from streams.parameters import in_force, overruled
from streams.replay.compare import published
from streams.replay.eras import LoggedEras, eras_of
from streams.settings import EVENTS, Bucket, Settings


class ReplayError(ValueError):
    """A replay that cannot be done as asked."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to replay and how; all of it decides the outcome, so a part goes on only with the same plan."""

    settings: Settings
    buckets: Mapping[str, Bucket]  # that learn, with the parameters to learn with
    topics: tuple[str, ...]  # impressions and clicks, or samples
    ranges: Mapping[tuple[str, int], tuple[int, int]]
    topic_ids: tuple[str, ...]
    address: str  # of the source
    finish: bool = True
    within: Range = field(default_factory=Range)  # as it was asked for; ``ranges`` is what that meant at the time
    eras: LoggedEras = field(default_factory=LoggedEras)

    @property
    def asked(self) -> str:
        """Name of what was asked for: the same while the logs grow."""
        settings = self.settings
        rules = [[b.name, b.dim, b.positions, b.context_scale, b.reward_scale] for b in settings.buckets.values()]
        learn = {name: [bucket.epoch, bucket.model().settings()] for name, bucket in self.buckets.items()}
        within = [sorted(self.ranges), list(self.within.start), list(self.within.stop)]
        times = [settings.wait_s, settings.lateness_s, settings.future_s, self.finish]
        return sha256(json.dumps([rules, learn, within, times, self.topics, self.topic_ids]).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Name of the plan: the same for the same outcome."""
        ranges = [[*place, *bounds] for place, bounds in sorted(self.ranges.items())]
        # A partition of which no event is left to judge has no eras here; more of them may come after the range's end.
        eras = [
            [number, *era]
            for number, of in sorted(self.eras.starts.items())
            for era in of
            if era[0] < self.ranges["impressions", number][1] or era[1] < self.ranges["clicks", number][1]
        ]
        return sha256(json.dumps([self.asked, ranges, *([eras] if eras else [])]).encode()).hexdigest()

    def total(self) -> int:
        """Return how many offsets there are to pass."""
        return sum(stop - start for start, stop in self.ranges.values())


def check_beginning(plan: ReplayPlan) -> None:
    """Refuse samples without their beginning: what comes of them is not what the whole log gives."""
    for (topic, number), (start, _) in plan.ranges.items():
        if topic == "samples" and start and not plan.within.start:
            raise ReplayError(
                f"samples {number} at {plan.address} begins at offset {start}: what was before is gone, or was not "
                "archived; --truncated learns from what is left, and an archive that was made earlier has all"
            )


def plan_of(
    source: LogSource,
    settings: Settings,
    *,
    samples: bool | None = None,
    only: Sequence[str] = (),
    within: Range | None = None,
    finish: bool = True,
    changes: Mapping[str, Any] | None = None,
) -> tuple[ReplayPlan, list[str]]:
    """Return what to replay, and what should be said about it beforehand.

    Parameters
    ----------
    samples
        Replay samples instead of raw events; None takes events when they are there.
    only
        Names of the buckets to learn; by default all.
    within
        The range of the logs.
    finish
        Close the lists that are still open at the end of raw events.
    changes
        Parameters to learn with instead of the deployed ones, such as ``{"algorithm": "c2ucb", "alpha": 0.1}``.
    """
    unknown = sorted(set(only) - set(settings.buckets))
    if unknown or not settings.buckets:
        known = ", ".join(settings.buckets) or "none"
        raise ReplayError(f"no bucket {', '.join(unknown) or 'to learn'} in the settings; there: {known}")
    if samples is None:
        samples = not all(source.has(topic) for topic in EVENTS)
    topics = ("samples",) if samples else EVENTS
    missing = [topic for topic in topics if not source.has(topic)]
    if missing:
        raise ReplayError(f"{source.where()} has no {' and no '.join(missing)}")
    chosen = {name: bucket for name, bucket in settings.buckets.items() if not only or name in only}
    changed = {name: replace(bucket, **changes or {}) for name, bucket in chosen.items()}
    settings = replace(settings, buckets={**settings.buckets, **changed})
    notes: list[str] = []
    partitions = {topic: source.partitions(topic) for topic in topics}
    if len(set(partitions.values())) > 1:
        raise ReplayError(f"impressions and clicks must have as many partitions, got {partitions}")
    wanted = within or Range()
    ranges = {
        (topic, number): wanted.of(source, topic, number, notes)
        for topic in topics
        for number in range(partitions[topic])
    }
    if all(start == stop for start, stop in ranges.values()):
        raise RangeError(f"nothing to replay: {' and '.join(topics)} on {source.where()} have no record in {wanted}")
    plan = ReplayPlan(
        settings=settings,
        buckets=changed,
        topics=topics,
        ranges=ranges,
        topic_ids=tuple(source.topic_id(topic) for topic in topics),
        address=source.address,
        finish=finish,
        within=wanted,
        eras=LoggedEras() if samples else eras_of(source, settings, notes),
    )
    return plan, notes


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
