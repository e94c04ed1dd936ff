"""Snapshots of what was learned, and the places that keep them."""

from streams.parameters.description import describe, describe_candidate, describe_rollout
from streams.parameters.directory import DirectoryParameters
from streams.parameters.newest import Newest
from streams.parameters.rollouts import CHANGEABLE, before_of, in_force, overruled, rollout_of
from streams.parameters.snapshot import (
    CANDIDATE,
    ROLLOUT,
    ConfigChanged,
    Hopeless,
    SnapshotCorrupt,
    SnapshotMissing,
    Version,
    check_config,
    check_stamp,
    differences,
    frozen_model,
    key_of,
    load_snapshot,
    name_of,
    restore_model,
    split_snapshot,
    take_snapshot,
    verify,
)
from streams.parameters.source import SnapshotSource

__all__ = [
    "CANDIDATE",
    "CHANGEABLE",
    "ROLLOUT",
    "ConfigChanged",
    "DirectoryParameters",
    "Hopeless",
    "Newest",
    "SnapshotCorrupt",
    "SnapshotMissing",
    "SnapshotSource",
    "Version",
    "before_of",
    "check_config",
    "check_stamp",
    "describe",
    "describe_candidate",
    "describe_rollout",
    "differences",
    "frozen_model",
    "in_force",
    "key_of",
    "load_snapshot",
    "name_of",
    "overruled",
    "restore_model",
    "rollout_of",
    "split_snapshot",
    "take_snapshot",
    "verify",
]
