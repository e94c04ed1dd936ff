"""Samples in, snapshots out."""

from streams.learn.lists import learn_lists, samples_of, some_lists
from streams.learn.partition_learner import PartitionLearner, SamplesPartition

__all__ = ["PartitionLearner", "SamplesPartition", "learn_lists", "samples_of", "some_lists"]
