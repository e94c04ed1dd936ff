"""The algorithms that learn to rank from samples, one file each, and what they share."""

from learner.bandits.bandit import Bandit, Option, Ranking
from learner.bandits.c2ucb import C2Ucb
from learner.bandits.cm_linucb import CmLinUcb
from learner.bandits.dcm_linucb import DcmLinUcb
from learner.bandits.linear import LinearRanking
from learner.bandits.pbm_ucb import PbmUcb
from learner.bandits.random_lists import RandomLists
from learner.bandits.theorem import TheoremWarning, exploration, regret_bound, safe_weight_bound
from learner.bandits.ubm_linucb import UbmLinUcb

ALGORITHMS: dict[str, type[Bandit]] = {
    kind.name: kind for kind in (UbmLinUcb, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, RandomLists)
}
"""Every algorithm by its name. An entry here is all that settings, learners, rankers and reports need of a new one."""

__all__ = [
    "ALGORITHMS",
    "Bandit",
    "C2Ucb",
    "CmLinUcb",
    "DcmLinUcb",
    "LinearRanking",
    "Option",
    "PbmUcb",
    "RandomLists",
    "Ranking",
    "TheoremWarning",
    "UbmLinUcb",
    "exploration",
    "regret_bound",
    "safe_weight_bound",
]
