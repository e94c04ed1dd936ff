"""Snapshots of what was learned, and the places that keep them."""

from streams.parameters.chunks import Version, load_snapshot, name_of, split_snapshot
from streams.parameters.description import describe
from streams.parameters.directory import DirectoryParameters
from streams.parameters.errors import ConfigChanged, Hopeless, SnapshotCorrupt, SnapshotMissing
from streams.parameters.newest import Newest
from streams.parameters.snapshot import check_config, check_stamp, frozen_model, restore_model, take_snapshot, verify
from streams.parameters.source import SnapshotSource

__all__ = [
    "ConfigChanged",
    "DirectoryParameters",
    "Hopeless",
    "Newest",
    "SnapshotCorrupt",
    "SnapshotMissing",
    "SnapshotSource",
    "Version",
    "check_config",
    "check_stamp",
    "describe",
    "frozen_model",
    "load_snapshot",
    "name_of",
    "restore_model",
    "split_snapshot",
    "take_snapshot",
    "verify",
]
