"""What a service ranks with: ``from streams.ranker import Ranker``."""

from streams.parameters import SnapshotMissing
from streams.rank.job import Ranker, health_of

__all__ = ["Ranker", "SnapshotMissing", "health_of"]
