"""Logged topics in, models out."""

from streams.replay.compare import compare, live_snapshots, snapshots_in

__all__ = ["compare", "live_snapshots", "snapshots_in"]
