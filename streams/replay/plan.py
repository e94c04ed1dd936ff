"""What to replay and how: the buckets as they are deployed, the logs and the range of each partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from schemas.records import Rollout, Rules
from streams.embedded import read_standing
from streams.join import Commit, JoinRules, LogPart, RuleEra
from streams.logs import ArchiveSource, LogSource, Range, RangeError
from streams.parameters import in_force, overruled
from streams.replay.compare import published
from streams.settings import EVENTS, Bucket, Settings


class ReplayError(ValueError):
    """A replay that cannot be done as asked."""


@dataclass(frozen=True, slots=True)
class LoggedEras:
    """The rules that the events of each partition were judged by, in order; none where the settings' hold for all."""

    by_partition: Mapping[int, Sequence[Rules]] = field(default_factory=dict)

    @property
    def rules(self) -> dict[str, bytes]:
        """The rules by their hash."""
        return {rules.hash: rules.rules for eras in self.by_partition.values() for rules in eras}

    def begin(self, partition: int, *, impressions: int, clicks: int) -> Commit:
        """Return where a join of one partition begins that knows the eras ahead of it."""
        eras = self.by_partition.get(partition, ())
        return Commit(
            LogPart.beginning(impressions, [RuleEra(era.impressions_from, era.hash) for era in eras]),
            LogPart.beginning(clicks, [RuleEra(era.clicks_from, era.hash) for era in eras]),
            impressions,
        )


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
        rules = [
            [bucket.name, bucket.dim, bucket.positions, bucket.context_scale, bucket.reward_scale]
            for bucket in settings.buckets.values()
        ]
        learn = {name: [bucket.epoch, bucket.model().settings()] for name, bucket in self.buckets.items()}
        within = [sorted(self.ranges), list(self.within.start), list(self.within.stop)]
        times = [settings.wait_s, settings.lateness_s, settings.future_s, self.finish]
        return sha256(json.dumps([rules, learn, within, times, self.topics, self.topic_ids]).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Name of the plan: the same for the same outcome."""
        ranges = [[*log, *bounds] for log, bounds in sorted(self.ranges.items())]
        # A partition of which no event is left to judge has no eras here; more of them may come after the range's end.
        eras = [
            [number, era.impressions_from, era.clicks_from, era.hash]
            for number, of in sorted(self.eras.by_partition.items())
            for era in of
            if era.impressions_from < self.ranges["impressions", number][1]
            or era.clicks_from < self.ranges["clicks", number][1]
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


def eras_of(source: LogSource, settings: Settings, notes: list[str]) -> LoggedEras:
    """Return by which rules the events of a source were judged live, if the settings still ask for the last of them.

    With other settings a replay asks what would have been: then all events are judged by them.
    """
    topic_id, eras = source.topic_id("impressions"), dict[int, dict[tuple[int, int], Rules]]()
    standing = read_standing(source.archive) if isinstance(source, ArchiveSource) else None
    for rules in (*(standing.rules if standing is not None else ()), *published(source, Rules)):
        if rules.topic_id in ("", topic_id):
            eras.setdefault(rules.partition, {})[rules.impressions_from, rules.clicks_from] = rules
    ordered = {number: [by_start[start] for start in sorted(by_start)] for number, by_start in eras.items()}
    if any(rules[-1].hash != JoinRules.of(settings).hash for rules in ordered.values()):
        notes.append("these settings judge events by other rules than the join did last: they hold for all events here")
        return LoggedEras()
    return LoggedEras(ordered)


def deployed(source: LogSource, settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with what was rolled out where the logs come from, and what should be said about it."""
    rollouts = rollouts_on(source)
    buckets = {name: in_force(bucket, rollouts.get(name)) for name, bucket in settings.buckets.items()}
    warnings = [overruled(bucket, rollouts.get(name)) for name, bucket in settings.buckets.items()]
    return replace(settings, buckets=buckets), [text for text in warnings if text is not None]


def rollouts_on(source: LogSource) -> dict[str, Rollout]:
    """Return the newest rollout of each bucket on a source's parameters topic; none when it has no such topic."""
    newest: dict[str, Rollout] = {}
    for rollout in published(source, Rollout):
        if rollout.epoch >= newest.setdefault(rollout.bucket, rollout).epoch:
            newest[rollout.bucket] = rollout
    return newest
