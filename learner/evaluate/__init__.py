"""Judging a policy by the log of another one: click rates and off-policy estimates."""

from learner.evaluate.cascade import cascade_dr
from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import Estimate, Interval, NoSupport
from learner.evaluate.ips import ips
from learner.evaluate.linear import ubm_linear
from learner.evaluate.lists import LoggedLists, Policy
from learner.evaluate.metrics import ctr_set, ctr_sum
from learner.evaluate.sequential import ubm_ips_sequential
from learner.evaluate.support import support
from learner.evaluate.ubm import ubm_ips
from learner.evaluate.ubm_dr import Guess, ubm_dr

__all__ = [
    "Browsing",
    "Estimate",
    "Guess",
    "Interval",
    "LoggedLists",
    "NoSupport",
    "Policy",
    "cascade_dr",
    "ctr_set",
    "ctr_sum",
    "ips",
    "support",
    "ubm_dr",
    "ubm_ips",
    "ubm_ips_sequential",
    "ubm_linear",
]
