"""Replays: parts in processes, output, provenance."""

from streams.replay.job.output import check_newer, in_directory, on_topic, snapshots_of, write_directory, write_topic
from streams.replay.job.provenance import Wanted, rebuild
from streams.replay.job.replay import Interrupted, Replayed, ReplayError, open_source, plan_of, replay

__all__ = [
    "Interrupted",
    "ReplayError",
    "Replayed",
    "Wanted",
    "check_newer",
    "in_directory",
    "on_topic",
    "open_source",
    "plan_of",
    "rebuild",
    "replay",
    "snapshots_of",
    "write_directory",
    "write_topic",
]
