"""The buckets of a drill: those that are set, or three of its own with a state of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streams.settings import Bucket, Settings

POSITIONS, DIM = 8, 6


def drill_settings(settings: Settings) -> Settings:
    """Return settings that have buckets."""
    return settings if settings.buckets else replace(settings, buckets=own_buckets())


def own_buckets() -> dict[str, Bucket]:
    """Return a bucket that weighs by examination, one that weighs nothing, and one without contexts."""
    seen: NDArray[np.float64] = np.float_power(0.85, np.arange(POSITIONS))
    return {
        "ubm": Bucket("ubm", "ubm-linucb", DIM, POSITIONS, np.tril(np.tile(seen[:, None], POSITIONS)), alpha=0.3),
        "plain": Bucket("plain", "c2ucb", DIM, POSITIONS, alpha=0.3),
        "items": Bucket("items", "pbm-ucb", 0, POSITIONS, seen, alpha=0.3),
    }
