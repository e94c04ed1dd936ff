"""Samples in, snapshots out."""

from streams.learn.bucket_state import Durable, SamplesPartition
from streams.learn.lists import learn_lists, samples_of, some_lists
from streams.learn.partition_learner import PartitionLearner

__all__ = ["Durable", "PartitionLearner", "SamplesPartition", "learn_lists", "samples_of", "some_lists"]
