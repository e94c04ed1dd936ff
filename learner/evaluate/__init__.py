"""Judging a policy by the log of another one: click rates and off-policy estimates."""

from learner.evaluate.chain import Browsing
from learner.evaluate.estimate import Estimate, Interval, NoSupport
from learner.evaluate.ips import cascade_dr, ips
from learner.evaluate.linear import ubm_linear
from learner.evaluate.lists import BEYOND_END, LoggedLists, Policy, ctr_set, ctr_sum
from learner.evaluate.ubm import Guess, ubm_dr, ubm_ips, ubm_ips_sequential
from learner.evaluate.units import support

__all__ = [
    "BEYOND_END",
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
