"""A ranker that takes new snapshots over while it serves."""

from streams.rank.job.metrics import health_of
from streams.rank.job.ranker import Ranker

__all__ = ["Ranker", "health_of"]
