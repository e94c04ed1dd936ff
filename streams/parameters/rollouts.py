"""Rollouts: other parameters of a bucket, in force over the settings; and what an epoch before was learned with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schemas.json_text import parse_json
from schemas.records import Rollout, Snapshot
from streams.parameters.snapshot import ConfigChanged, algorithm_of, differences, options_of
from streams.settings import Bucket, SettingsError

# by a rollout; the join knows nothing of these
CHANGEABLE = ("algorithm", "alpha", "ridge", "beta", "examination", "options")


def rollout_of(bucket: Bucket, before: Bucket | None, *, truncated: bool = False, now_ms: int) -> Rollout:
    """Return the record that puts ``bucket``'s parameters in force from its epoch on; ``before`` may not be known."""
    known = b"" if before is None else _packed(before)
    return Rollout(bucket.name, bucket.epoch, _packed(bucket), known, now_ms, truncated)


def in_force(bucket: Bucket, rollout: Rollout | None) -> Bucket:
    """Return a bucket of the settings as it is to be learned: with the rollout's parameters unless its epoch is higher.

    Raises ConfigChanged when the rollout's parameters do not fit what the settings say of the bucket's lists.
    """
    if rollout is None or bucket.epoch > rollout.epoch:
        return bucket
    return _unpacked(bucket, rollout.settings, rollout.epoch)


def before_of(bucket: Bucket, rollout: Rollout | None, snapshot: Snapshot) -> Bucket | None:
    """Return the bucket as ``snapshot``, of an epoch before, was learned; None when nobody knows its table any more."""
    guesses = [bucket]
    if rollout is not None:
        guesses += [
            _unpacked(bucket, packed, snapshot.epoch) for packed in (rollout.before, rollout.settings) if packed
        ]
    if not algorithm_of(snapshot).table_axes:  # then the snapshot itself tells all
        told: dict[str, Any] = {"algorithm": snapshot.algorithm, "alpha": snapshot.alpha, "examination": None}
        told |= {"ridge": snapshot.ridge or None, "beta": snapshot.beta or None}  # 0: of an algorithm that has none
        told["options"] = options_of(snapshot)
        guesses.append(replace(bucket, **told))
    for guess in guesses:
        earlier = replace(guess, epoch=snapshot.epoch)
        if not differences(earlier, snapshot):
            return earlier
    return None


def overruled(bucket: Bucket, rollout: Rollout | None) -> str | None:
    """Return the warning that a rollout is in force over what the settings say of a bucket, or None."""
    if rollout is None or bucket.epoch > rollout.epoch:
        return None
    ours, theirs = _told(bucket), parse_json(rollout.settings)
    differs = [name for name in CHANGEABLE if ours.get(name) != theirs.get(name)]
    if not differs:
        return None
    return (
        f"bucket {bucket.name!r}: a rollout (epoch {rollout.epoch}) is in force over {', '.join(differs)} of the "
        f"settings; glimpse rollout --bucket {bucket.name} rolls out what they say, epoch = {rollout.epoch + 1} in "
        "them overrules it"
    )


def _told(bucket: Bucket) -> dict[str, Any]:
    told = {name: getattr(bucket, name) for name in CHANGEABLE if name != "options" or bucket.options}
    return told | {"examination": None if bucket.examination is None else bucket.examination.tolist()}


def _packed(bucket: Bucket) -> bytes:
    return json.dumps(_told(bucket), sort_keys=True, separators=(",", ":")).encode()


def _unpacked(bucket: Bucket, packed: bytes, epoch: int) -> Bucket:
    try:
        told: Mapping[str, Any] = {"options": {}} | parse_json(packed)
        return replace(bucket, **{name: told[name] for name in CHANGEABLE}, epoch=epoch)
    except (SettingsError, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise ConfigChanged(
            f"bucket {bucket.name!r} cannot be learned as its rollout (epoch {epoch}) says: {error}; mend the "
            f"settings, or roll out anew: glimpse rollout --bucket {bucket.name}"
        ) from error
