"""Comparing what is logged, once or again and again."""

from streams.compare.job.follow import SampleFollower
from streams.compare.job.show import show_comparison

__all__ = ["SampleFollower", "show_comparison"]
