"""The algorithms that learn to rank from samples, one file each, and what they share."""

from learner.bandits.bandit import ALGORITHMS, CONTEXT_FREE, Bandit, Ranking
from learner.bandits.by_lot import RandomLists
from learner.bandits.c2ucb import C2Ucb
from learner.bandits.cm_linucb import CmLinUcb
from learner.bandits.dcm_linucb import DcmLinUcb
from learner.bandits.linear import LinearRanking
from learner.bandits.pbm_ucb import PbmUcb
from learner.bandits.theorem import TheoremWarning, exploration, regret_bound, safe_weight_bound
from learner.bandits.ubm_linucb import UbmLinUcb

__all__ = [
    "ALGORITHMS",
    "CONTEXT_FREE",
    "Bandit",
    "C2Ucb",
    "CmLinUcb",
    "DcmLinUcb",
    "LinearRanking",
    "PbmUcb",
    "RandomLists",
    "Ranking",
    "TheoremWarning",
    "UbmLinUcb",
    "exploration",
    "regret_bound",
    "safe_weight_bound",
]
