"""Logged topics in, models out."""

from streams.replay.compare import compare, live_snapshots, snapshots_at, snapshots_in
from streams.replay.plan import LoggedEras, ReplayError, check_beginning, deployed, eras_of, plan_of, rollouts_on

__all__ = [
    "LoggedEras",
    "ReplayError",
    "check_beginning",
    "compare",
    "deployed",
    "eras_of",
    "live_snapshots",
    "plan_of",
    "rollouts_on",
    "snapshots_at",
    "snapshots_in",
]
