"""What an algorithm says of itself, and what all algorithms share: checks, settings, hash, merge."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints
from learner.bandits.topk import best_first
from learner.exact import State, state_sha256
from learner.samples import Samples, refuse

Settings = dict[str, str | float | int | None]
ATTRIBUTES = {"alpha": "fixed_alpha", "examination": "examination_sha256"}  # settings kept under another name


class Option(NamedTuple):
    """A number that one algorithm alone is set to; ``check`` returns it, or raises ValueError with what is allowed."""

    default: float
    check: Callable[[float], float]


class Ranking(ABC):
    """Ranks candidates from sums of integers: all of an algorithm but learning, which a snapshot can be made into.

    The class attributes describe the algorithm to whoever configures, stores or serves it.

    Parameters
    ----------
    positions
        K, the longest list that is ranked and learned from.
    reward_scale
        The largest reward.
    """

    name: ClassVar[str]  # in [buckets.NAME] and in snapshots
    options: ClassVar[tuple[str, ...]]  # keys of [buckets.NAME] that the constructor takes, of those that all share
    own_options: ClassVar[Mapping[str, Option]] = {}  # further keys, of this algorithm alone; attributes of a model
    recorded: ClassVar[tuple[str, ...]]  # fields of a snapshot that must agree before states are merged or restored
    contextual: ClassVar[bool] = True  # ranks feature vectors; False: ranks item ids
    table_axes: ClassVar[int] = 0  # of its examination table: 2 for K×K, 1 for K chances, 0 for none
    draws: ClassVar[bool] = False  # every list is drawn at random, so that its chances are known

    dim: int = 0  # length of a feature vector
    fixed_alpha: float | None = None  # None: α follows the algorithm's own rule
    examination_sha256: str = ""

    def __init__(self, *, positions: int, reward_scale: float = 1.0) -> None:
        self.positions = checked_count("positions", positions)
        self.reward_scale = checked_number("reward_scale", reward_scale, above=0.0)
        self.rounds = 0

    @classmethod
    def frozen(cls, settings: Mapping[str, Any]) -> "Ranking":
        """Return what ranks with recorded settings; the table, which only weighs what is learned, is not needed."""
        options = {key: settings[key] for key in (*cls.options, *cls.own_options) if key in settings}
        if cls.table_axes:
            options["examination"] = np.ones((settings["positions"],) * cls.table_axes)
        return cls(**options)

    @classmethod
    @abstractmethod
    def state_sizes(cls, dim: int, positions: int) -> dict[str, int | None]:
        """Return the length of each array of a state; None: it depends on what was learned."""

    @property
    def alpha(self) -> float:
        """Width of the confidence bound in the next round."""
        return 0.0

    @property
    @abstractmethod
    def theta(self) -> Floats:
        """The learned parameters."""

    @abstractmethod
    def predict(self, candidates: ArrayLike, items: ArrayLike | None = None) -> Floats:
        """Return the estimated attractiveness of each candidate."""

    def scores(self, candidates: ArrayLike, items: ArrayLike | None = None, *, explore: float = 1.0) -> Floats:
        """Return what each candidate is ranked by; ``explore`` is a share of α."""
        return self.predict(candidates, items)

    def rank(
        self, candidates: ArrayLike, size: int = 12, items: ArrayLike | None = None, *, explore: float = 1.0
    ) -> Ints:
        """Return the rows of the ``size`` best scores, best first, ties by row; ``explore`` is a share of α."""
        return best_first(self.scores(candidates, items, explore=explore), checked_count("size", size))

    def rank_mapped(self, held: Floats, mapping: Floats, *, norms: Floats, size: int, explore: float = 1.0) -> Ints:
        """Return the best rows as ``rank(held @ mapping.T)`` would; ``norms`` of the rows held may help."""
        return self.rank(held @ mapping.T, size, explore=explore)

    def settings(self) -> Settings:
        """Return all that must agree before states can be merged or restored."""
        kept = {key: getattr(self, ATTRIBUTES.get(key, key)) for key in (*self.recorded, *self.own_options)}
        return {"algorithm": self.name, **kept}

    @abstractmethod
    def state(self) -> State:
        """Return the sums as integers; the same lists give the same integers in any order."""

    @abstractmethod
    def restore(self, state: Mapping[str, Ints]) -> None:
        """Take over a state that a model with the same settings returned."""

    def sha256(self) -> str:
        """Return the hash of settings and state that anyone with the same lists arrives at."""
        return state_sha256(self.settings(), self.state())


class Bandit(Ranking):
    """An algorithm: learns from samples, ranks candidates, and hands its state on as integers."""

    @abstractmethod
    def learn(self, samples: Samples) -> None:
        """Add every list of ``samples`` (take back those of sign −1); on bad input nothing changes."""

    def merge(self, other: Self) -> None:
        """Add what another model with the same settings learned from other lists."""
        self._check_same(other)
        theirs = other.state()
        self.restore({name: cells + theirs[name] for name, cells in self.state().items()})

    def _check_same(self, other: "Bandit") -> None:
        mine, theirs = self.settings(), other.settings()
        if mine != theirs:
            apart = [f"{key} {mine[key]!r} and {theirs.get(key)!r}" for key in mine if mine[key] != theirs.get(key)]
            raise ValueError(f"models with different settings cannot be merged: {'; '.join(apart)}")

    def _check_lists(self, samples: Samples) -> None:
        """Refuse positions beyond K and rewards beyond their scale."""
        if samples.deepest > self.positions:
            bad = samples.position > self.positions
            refuse("position", samples.position, bad, f"this model knows positions 1 to {self.positions}")
        if samples.largest_reward > self.reward_scale:
            bad = samples.reward > self.reward_scale
            refuse("reward", samples.reward, bad, f"rewards lie within reward_scale 0 to {self.reward_scale}")


def checked_count(name: str, value: int) -> int:
    """Return a whole number of at least 1."""
    if int(value) != value or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def checked_number(name: str, value: float, *, least: float = -np.inf, above: float = -np.inf) -> float:
    """Return a finite number that is at least ``least`` and greater than ``above``."""
    number = float(value)
    if not (np.isfinite(number) and number >= least and number > above):
        wanted = f"greater than {above}" if above > -np.inf else f"at least {least}"
        raise ValueError(f"{name} must be a number {wanted}, got {value!r}")
    return number
