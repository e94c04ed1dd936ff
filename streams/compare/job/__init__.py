"""Comparing what is logged, once or again and again."""

from streams.compare.job.follow import SampleFollower
from streams.compare.job.metrics import comparison_metrics
from streams.compare.job.show import show_comparison

__all__ = ["SampleFollower", "comparison_metrics", "show_comparison"]
