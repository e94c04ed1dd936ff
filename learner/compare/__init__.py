"""Comparing buckets while they run: lifts, sample ratios and join rates that may be looked at every minute."""

from learner.compare.checks import loss_gaps, ratio_evidence
from learner.compare.lift import Lift, further_information, lift_over_control
from learner.compare.moments import RatioMoments, moments_over_time

__all__ = [
    "Lift",
    "RatioMoments",
    "further_information",
    "lift_over_control",
    "loss_gaps",
    "moments_over_time",
    "ratio_evidence",
]
