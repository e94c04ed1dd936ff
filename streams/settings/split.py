"""How users are split: the salt, what a holdout keeps apart, and what is asked for beside the buckets' weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from streams.settings.bucket import Bucket
from streams.settings.checks import SettingsError, check_number, did_you_mean


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """The table [split] of glimpse.toml; weights and namespaces stand with the buckets."""

    salt: str = ""  # another salt draws all users anew, but for the holdout
    holdout: float = 0.0  # the share of users who are kept out of every namespace's experiment
    holdout_bucket: str | None = None  # what those meet
    sticky: bool = False  # a user known to have met a bucket stays there, whatever the weights are now
    same_ranking: str | None = None  # A/A: the bucket whose model ranks in every bucket, so that none can differ

    def __post_init__(self) -> None:
        if not isinstance(self.salt, str) or len(self.salt) > 100 or "\0" in self.salt:
            raise SettingsError("split.salt", self.salt, "must be text of at most 100 characters, without a NUL")
        check_number("split.holdout", self.holdout, least=0, most=0.9)
        if not isinstance(self.sticky, bool):
            raise SettingsError("split.sticky", self.sticky, "must be true or false")
        for key in ("holdout_bucket", "same_ranking"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, str):
                raise SettingsError(f"split.{key}", value, "must be the name of a bucket")
        if self.holdout > 0 and self.holdout_bucket is None:
            raise SettingsError("split.holdout_bucket", None, "a holdout needs one: the bucket that its users meet")

    def check_buckets(self, buckets: Mapping[str, Bucket]) -> None:
        """Refuse names of buckets that are not there, and a namespace none of whose buckets takes users."""
        for key in ("holdout_bucket", "same_ranking"):
            value = getattr(self, key)
            if value is not None and value not in buckets:
                raise SettingsError(f"split.{key}", value, f"no such bucket{did_you_mean(value, buckets)}")
        ranking = buckets.get(self.same_ranking or "")
        for bucket in buckets.values() if ranking is not None else []:
            for key in ("dim", "positions", "context_scale"):
                if getattr(bucket, key) != getattr(ranking, key):
                    raise SettingsError(
                        f"buckets.{bucket.name}.{key}", getattr(bucket, key), f"must be that of {self.same_ranking!r}"
                    )
        others = [bucket for name, bucket in buckets.items() if name != self.holdout_bucket]
        for bucket in others:
            if not any(each.weight > 0 for each in others if each.namespace == bucket.namespace):
                raise SettingsError(
                    f"buckets.{bucket.name}.weight", bucket.weight, "one bucket of each namespace must be above 0"
                )


def split_of(found: object) -> SplitSettings:
    """Return the table [split] of glimpse.toml, checked."""
    if not isinstance(found, dict):
        raise SettingsError("split", found, "must be a table [split]")
    values: dict[str, Any] = found
    known = [part.name for part in fields(SplitSettings)]
    for key in values:
        if key not in known:
            raise SettingsError(f"split.{key}", values[key], f"no such key{did_you_mean(key, known)}")
    return SplitSettings(**values)
