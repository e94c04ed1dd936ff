"""Judging a policy by the log of another one: click rates and off-policy estimates."""

from learner.evaluate.cascade import cascade_dr
from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import Estimate, Interval, NoSupport
from learner.evaluate.ips import ips
from learner.evaluate.lists import LoggedLists, Policy
from learner.evaluate.metrics import ctr_set, ctr_sum
from learner.evaluate.sequential import ubm_ips_sequential
from learner.evaluate.support import support
from learner.evaluate.ubm import ubm_ips

__all__ = [
    "Browsing",
    "Estimate",
    "Interval",
    "LoggedLists",
    "NoSupport",
    "Policy",
    "cascade_dr",
    "ctr_set",
    "ctr_sum",
    "ips",
    "support",
    "ubm_ips",
    "ubm_ips_sequential",
]
