"""One bucket: an algorithm with its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner import ALGORITHMS, Bandit, RandomLists
from learner.bandits import CONTEXT_FREE
from learner.browsing import MAX_POSITIONS
from learner.plackett_luce import DrawnList, draw_list, random_of
from streams.settings.checks import (
    SettingsError,
    check_choice,
    check_count,
    check_name,
    check_number,
)
from streams.settings.examination import checked

POSITIONS = 12  # of a list, where nothing else is said
POLICIES = ("best", "plackett-luce")


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """One algorithm with its parameters, trained only on its own traffic; None means the paper's rule."""

    name: str
    algorithm: str = "c2ucb"
    dim: int = 10
    positions: int = POSITIONS
    examination: NDArray[np.float64] | None = None
    alpha: float | None = None
    ridge: float | str | None = None
    beta: float | None = None
    context_scale: float = 1.0
    reward_scale: float = 1.0
    epoch: int = 1
    weight: float = 1.0  # its share of the users, in proportion to the others of its namespace
    namespace: str = ""  # the experiment it takes part in; users are split anew in each
    host: str | None = None  # a shadow serves nobody: it learns from the samples of this bucket, with sums of its own
    policy: str = "best"  # or plackett-luce: lists drawn from the scores, with known chances
    temperature: float = 0.05  # of plackett-luce, in clicks per look: the larger, the more is left to chance
    shortlist: int = 0  # only so many of the best can be drawn; 0: all candidates
    contexts_sha256: str = ""  # of the recipe or the encoder that makes its contexts, written into its snapshots

    def __post_init__(self) -> None:
        check_name("buckets", self.name)
        at = f"buckets.{self.name}."
        check_choice(at + "algorithm", self.algorithm, ALGORITHMS)
        check_count(at + "dim", self.dim, least=0 if self.algorithm in CONTEXT_FREE else 1, most=4096)
        check_count(at + "positions", self.positions, least=1, most=MAX_POSITIONS)
        check_count(at + "epoch", self.epoch, least=1, most=2**31 - 1)
        check_number(at + "weight", self.weight, least=0, most=1e9)
        check_name(at + "namespace", self.namespace, least=0)
        check_choice(at + "policy", self.policy, POLICIES)
        check_number(at + "temperature", self.temperature, least=1e-4, most=1e4)
        check_count(at + "shortlist", self.shortlist, least=0, most=100_000)
        if 0 < self.shortlist < self.positions:
            raise SettingsError(at + "shortlist", self.shortlist, f"must fill a list of {self.positions}, or be 0")
        if self.algorithm == "random" and self.policy != "best":
            raise SettingsError(at + "policy", self.policy, "random draws lists by lot already; leave it out")
        check_number(at + "context_scale", self.context_scale, above=0)
        check_number(at + "reward_scale", self.reward_scale, above=0)
        if self.alpha is not None:
            check_number(at + "alpha", self.alpha, least=0)
        if self.beta is not None:
            check_number(at + "beta", self.beta, above=0)
        if self.ridge is not None and not (self.ridge == "safe" and self.algorithm not in CONTEXT_FREE):
            check_number(at + "ridge", self.ridge, above=0)
        if not isinstance(self.contexts_sha256, str) or not re.fullmatch("([0-9a-f]{64})?", self.contexts_sha256):
            raise SettingsError(at + "contexts_sha256", self.contexts_sha256, "must be a hash, as GET /items tells it")
        self._check_examination(at + "examination")

    def _check_examination(self, key: str) -> None:
        wanted = {"ubm-linucb": (self.positions,) * 2, "pbm-ucb": (self.positions,)}.get(self.algorithm)
        if wanted is None and self.examination is None:
            return
        shape = " × ".join(map(str, wanted or ("K",)))
        if self.examination is None:
            raise SettingsError(key, None, f"{self.algorithm} needs a table of {shape} chances; make one: glimpse fit")
        try:
            object.__setattr__(self, "examination", checked(self.examination))
        except (TypeError, ValueError) as error:
            raise SettingsError(key, "…", str(error)) from error
        if wanted is not None and self.examination.shape != wanted:
            raise SettingsError(key, self.examination.shape, f"{self.algorithm} needs a table of {shape} chances")

    def draws(self, explore: float = 1.0) -> bool:
        """Return whether its lists are drawn, so that their chances are known; without exploring only those by lot."""
        return self.algorithm == "random" or (self.policy == "plackett-luce" and explore > 0)

    def draw(self, scores: NDArray[np.float64], size: int, impression_id: str, *, explore: float = 1.0) -> DrawnList:
        """Return a list drawn from candidates of these scores; the id is its seed, ``explore`` a share of the noise."""
        lot = self.algorithm == "random"
        return draw_list(
            scores,
            size,
            temperature=1.0 if lot else self.temperature * explore,
            random=random_of(impression_id),
            shortlist=0 if lot else self.shortlist,
        )

    @property
    def learns_from(self) -> str:
        """The bucket whose samples it learns: its own, or its host's."""
        return self.host or self.name

    def check_host(self, buckets: Mapping[str, Bucket]) -> None:
        """Refuse a shadow that would serve, or whose host's lists it could not learn."""
        if self.host is None:
            return
        at, host = f"buckets.{self.name}.", buckets.get(self.host)
        if host is None or host.host is not None:
            raise SettingsError(at + "host", self.host, "must be another bucket, one that is no shadow itself")
        if self.weight != 0:
            raise SettingsError(at + "weight", self.weight, "a shadow serves nobody: weight = 0")
        if self.dim != host.dim and self.algorithm not in CONTEXT_FREE:
            raise SettingsError(at + "dim", self.dim, f"must be that of its host {host.name}, {host.dim}")
        if self.positions < host.positions:
            raise SettingsError(
                at + "positions", self.positions, f"must be at least those of its host {host.name}, {host.positions}"
            )

    def model(self) -> Bandit:
        """Return a fresh learner of this bucket, without any samples."""
        kind: Any = ALGORITHMS[self.algorithm]
        common: dict[str, Any] = {"alpha": self.alpha, "reward_scale": self.reward_scale}
        if self.algorithm == "random":
            return RandomLists(positions=self.positions, reward_scale=self.reward_scale)
        if self.algorithm == "pbm-ucb":
            model: Bandit = kind(examination=self.examination, **common)
            return model
        common |= {"ridge": self.ridge, "beta": self.beta, "context_scale": self.context_scale}
        if self.algorithm == "ubm-linucb":
            model = kind(dim=self.dim, examination=self.examination, **common)
        else:
            model = kind(dim=self.dim, positions=self.positions, **common)
        return model
