"""How Glimpse learns: arrays in, arrays out, no clock and no I/O."""

from learner.bandit import ALGORITHMS, Bandit
from learner.c2ucb import C2Ucb
from learner.cm_linucb import CmLinUcb
from learner.dcm_linucb import DcmLinUcb
from learner.pbm_ucb import PbmUcb
from learner.samples import Samples
from learner.ubm_linucb import UbmLinUcb

__all__ = ["ALGORITHMS", "Bandit", "C2Ucb", "CmLinUcb", "DcmLinUcb", "PbmUcb", "Samples", "UbmLinUcb"]
