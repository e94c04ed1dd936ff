"""Comparing what is logged, once or again and again."""

from streams.compare.job.follow import SampleFollower
from streams.compare.job.show import comparison_metrics, show_comparison

__all__ = ["SampleFollower", "comparison_metrics", "show_comparison"]
