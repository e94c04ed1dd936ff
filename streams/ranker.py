"""What a service ranks with: ``from streams.ranker import Ranker``."""

from streams.parameters.source import SnapshotMissing
from streams.rank.job.metrics import health_of
from streams.rank.job.ranker import Ranker

__all__ = ["Ranker", "SnapshotMissing", "health_of"]
