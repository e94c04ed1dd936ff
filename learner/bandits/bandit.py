"""The small contract that every algorithm fulfils, and the algorithms by name."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.bandits.by_lot import RandomLists
from learner.bandits.c2ucb import C2Ucb
from learner.bandits.cm_linucb import CmLinUcb
from learner.bandits.dcm_linucb import DcmLinUcb
from learner.bandits.linear import LinearRanking, Settings
from learner.bandits.pbm_ucb import PbmUcb
from learner.bandits.ubm_linucb import UbmLinUcb
from learner.exact import State
from learner.samples import Samples


class Bandit(Protocol):
    """What learns from samples, ranks candidates, and hands its state on as integers."""

    name: ClassVar[str]
    rounds: int
    positions: int

    @property
    def dim(self) -> int:
        """Length of a feature vector; 0 for a context-free model."""

    @property
    def alpha(self) -> float:
        """Width of the confidence bound in the next round."""

    @property
    def theta(self) -> NDArray[np.float64]:
        """The learned parameters."""

    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples``, take back those of sign −1."""

    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the estimated attractiveness of each candidate."""

    def scores(
        self, candidates: ArrayLike, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> NDArray[np.float64]:
        """Return what each candidate is ranked by: its upper confidence bound, with a share of α."""

    def rank(
        self, candidates: ArrayLike, size: int = 12, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> NDArray[np.int64]:
        """Return row indices, best first; ``explore`` is a share of α."""

    def settings(self) -> Settings:
        """Return all that must agree before states can be merged or restored."""

    def state(self) -> State:
        """Return the sums as integers."""

    def restore(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Take over a state that a model with the same settings returned."""

    def sha256(self) -> str:
        """Return the hash of settings and state."""

    def merge(self, other: Any) -> None:
        """Add what another model with the same settings learned from other lists."""


Ranking: TypeAlias = LinearRanking | PbmUcb | RandomLists  # what a snapshot can be made into, without its table

ALGORITHMS: dict[str, type[Bandit]] = {
    model.name: model for model in (UbmLinUcb, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, RandomLists)
}
CONTEXT_FREE = (PbmUcb.name, RandomLists.name)
