"""Comparing buckets while they run: lifts, sample ratios and join rates that may be looked at every minute."""

from learner.compare.forecast import further_information
from learner.compare.lift import Lift, lift_over_control
from learner.compare.loss import LossGap, loss_gaps
from learner.compare.moments import RatioMoments, moments_over_time
from learner.compare.sample_ratio import ratio_evidence

__all__ = [
    "Lift",
    "LossGap",
    "RatioMoments",
    "further_information",
    "lift_over_control",
    "loss_gaps",
    "moments_over_time",
    "ratio_evidence",
]
