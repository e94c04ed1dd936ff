"""Samples in, snapshots out."""

from streams.learn.partition_learner import PartitionLearner, SamplesPartition, samples_of

__all__ = ["PartitionLearner", "SamplesPartition", "samples_of"]
