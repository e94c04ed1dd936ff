"""How Glimpse learns: arithmetic on arrays, without a clock and without I/O."""

from learner.bandits import ALGORITHMS, Bandit, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, RandomLists, UbmLinUcb
from learner.samples import Samples

__all__ = ["ALGORITHMS", "Bandit", "C2Ucb", "CmLinUcb", "DcmLinUcb", "PbmUcb", "RandomLists", "Samples", "UbmLinUcb"]
