"""Logged topics in, models out."""

from streams.replay.compare import compare, live_snapshots, snapshots_in
from streams.replay.eras import LoggedEras, eras_of
from streams.replay.plan import ReplayError, plan_of

__all__ = ["LoggedEras", "ReplayError", "compare", "eras_of", "live_snapshots", "plan_of", "snapshots_in"]
