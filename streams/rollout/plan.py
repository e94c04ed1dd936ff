"""What a rollout changes: the parameters that serve, those that would, and the epoch that they would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from learner.browsing import table_hash
from schemas.records import Rollout, Snapshot
from streams.parameters import CHANGEABLE, before_of, differences, in_force, name_of, overruled, rollout_of
from streams.settings import Bucket

_NAMES = {"alpha": "α", "ridge": "λ", "beta": "β", "examination": "table"}


class RolloutError(ValueError):
    """A rollout that cannot be done as asked."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A bucket of the settings as it is now: the snapshot that serves, and what else is known of it."""

    bucket: Bucket  # as the settings have it
    snapshot: Snapshot
    rollout: Rollout | None = None
    candidate: Snapshot | None = None

    @property
    def wanted(self) -> Bucket:
        """The bucket with the parameters that are in force."""
        return in_force(self.bucket, self.rollout)

    @property
    def parameters(self) -> Bucket | None:
        """The bucket with the parameters that the snapshot was learned with; None when its table is not known."""
        wanted = self.wanted
        if wanted.epoch == self.snapshot.epoch and not differences(wanted, self.snapshot):
            return wanted
        return before_of(self.bucket, self.rollout, self.snapshot)

    @property
    def next_epoch(self) -> int:
        """The lowest epoch that nobody has used."""
        used = (self.bucket, self.snapshot, self.rollout, self.candidate)
        return max(holder.epoch for holder in used if holder is not None) + 1


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """From which parameters to which; ``before`` is None when nobody knows them any more."""

    serving: Snapshot
    before: Bucket | None
    after: Bucket

    def changes(self) -> list[tuple[str, str, str]]:
        """Return what changes: its name, what serves and what would, as people read them."""
        ours, theirs = (_told(bucket) for bucket in (self.before, self.after))
        pairs = [(name, ours.get(name, "none"), new) for name, new in theirs.items()]
        return [(_NAMES.get(name, name), old, new) for name, old, new in pairs if old != new]

    def record(self, *, truncated: bool, now_ms: int) -> Rollout:
        """Return the record that puts the plan in force."""
        return rollout_of(self.after, self.before, truncated=truncated, now_ms=now_ms)


def onward(now: Serving, changes: Mapping[str, Any]) -> RolloutPlan:
    """Return the plan that changes what is in force; without ``changes``, to what the settings say."""
    base = now.wanted if changes else now.bucket
    options = base.options if changes.get("algorithm", base.algorithm) == base.algorithm else {}
    after = replace(base, **{"options": options, **changes}, epoch=now.next_epoch)
    return _checked(now, after, "name what to change: --examination, --alpha, --ridge or --algorithm")


def back(now: Serving) -> RolloutPlan:
    """Return the plan that goes back to what was learned with before the last rollout."""
    name = now.bucket.name
    if now.rollout is None or overruled(now.bucket, now.rollout) is None:
        # Also after it went back: to do so twice must not bring in what was just taken out.
        raise RolloutError(
            f"bucket {name!r} is learned as the settings say: there is no rollout to go back from; for others "
            f"change glimpse.toml, then glimpse rollout --bucket {name}"
        )
    if not now.rollout.before:
        raise RolloutError(f"what bucket {name!r} was learned with before its rollout was not known; name it instead")
    before = in_force(now.bucket, replace(now.rollout, settings=now.rollout.before))
    return _checked(now, replace(before, epoch=now.next_epoch), "it is what serves already")


def _checked(now: Serving, after: Bucket, advice: str) -> RolloutPlan:
    plan = RolloutPlan(now.snapshot, now.parameters, after)
    under_way = now.wanted.epoch > now.snapshot.epoch
    if not plan.changes() and not under_way:
        raise RolloutError(f"{name_of(now.snapshot)} was learned with just these parameters; {advice}")
    return plan


def _told(bucket: Bucket | None) -> dict[str, str]:
    if bucket is None:
        return dict.fromkeys(CHANGEABLE, "not known")
    model_settings = bucket.model().settings()
    table = bucket.examination if model_settings.get("examination") else None
    told: dict[str, str] = {"algorithm": bucket.algorithm}
    for name, rule in (("alpha", "by the theorem"), ("ridge", "by the paper's rule"), ("beta", "by the paper's rule")):
        given, resolved = getattr(bucket, name), model_settings.get(name)
        told[name] = f"{given:g}" if isinstance(given, (int, float)) else given or rule
        if name != "alpha" and not isinstance(given, (int, float)) and resolved is not None:
            told[name] += f", {resolved:g}"
    told |= {name: f"{value:g}" for name, value in bucket.options.items()}
    told["examination"] = "none" if table is None else f"sha256 {table_hash(table)[:12]}…"
    return told
