"""Replays: parts in processes, output, provenance."""

from streams.replay.job.output import check_newer, on_topic, snapshots_of, write_directory, write_topic
from streams.replay.job.part import Interrupted
from streams.replay.job.provenance import Wanted, rebuild
from streams.replay.job.replay import Replayed, replay

__all__ = [
    "Interrupted",
    "Replayed",
    "Wanted",
    "check_newer",
    "on_topic",
    "rebuild",
    "replay",
    "snapshots_of",
    "write_directory",
    "write_topic",
]
