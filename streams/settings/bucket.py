"""One bucket, an algorithm with its parameters; its examination table; and how users are split into buckets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner import ALGORITHMS, Bandit
from learner.browsing import MAX_POSITIONS, checked_positions, checked_table, table_hash
from learner.plackett_luce import DrawnList, draw_list, random_of
from schemas.json_text import parse_json
from streams.settings.checks import (
    SettingsError,
    check_choice,
    check_count,
    check_keys,
    check_name,
    check_number,
    did_you_mean,
)

POSITIONS = 12  # of a list, where nothing else is said
MAX_DIM = 4096
TABLE_KEYS = ("positions", "examination", "observations", "factor", "scale", "sha256")
SCALE = "the largest well-observed cell is 1: clicks tell w only up to a factor, which was taken out"


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
    options: dict[str, float] = field(default_factory=dict)  # that its algorithm alone has, next to the others here

    def __post_init__(self) -> None:
        check_name("buckets", self.name)
        at = f"buckets.{self.name}."
        check_choice(at + "algorithm", self.algorithm, ALGORITHMS)
        check_count(at + "dim", self.dim, least=1 if self.kind.contextual else 0, most=MAX_DIM)
        check_count(at + "positions", self.positions, least=1, most=MAX_POSITIONS)
        check_count(at + "epoch", self.epoch, least=1, most=2**31 - 1)
        check_number(at + "weight", self.weight, least=0, most=1e9)
        check_name(at + "namespace", self.namespace, least=0)
        check_choice(at + "policy", self.policy, ("best", "plackett-luce"))
        check_number(at + "temperature", self.temperature, least=1e-4, most=1e4)
        check_count(at + "shortlist", self.shortlist, least=0, most=100_000)
        if 0 < self.shortlist < self.positions:
            raise SettingsError(at + "shortlist", self.shortlist, f"must fill a list of {self.positions}, or be 0")
        if self.kind.draws and self.policy != "best":
            raise SettingsError(at + "policy", self.policy, f"{self.algorithm} draws its lists already; leave it out")
        check_number(at + "context_scale", self.context_scale, above=0)
        check_number(at + "reward_scale", self.reward_scale, above=0)
        if self.alpha is not None:
            check_number(at + "alpha", self.alpha, least=0)
        if self.beta is not None:
            check_number(at + "beta", self.beta, above=0)
        if self.ridge is not None and not (self.ridge == "safe" and "ridge" in self.kind.options):
            check_number(at + "ridge", self.ridge, above=0)
        if not isinstance(self.contexts_sha256, str) or not re.fullmatch("([0-9a-f]{64})?", self.contexts_sha256):
            raise SettingsError(at + "contexts_sha256", self.contexts_sha256, "must be a hash, as GET /items tells it")
        self._check_examination(at + "examination")
        check_keys(at, self.options, self.kind.own_options)
        values = {key: self._checked_option(at + key, key) for key in self.kind.own_options}
        object.__setattr__(self, "options", values)

    def _checked_option(self, at: str, key: str) -> float:
        option = self.kind.own_options[key]
        value = self.options.get(key, option.default)
        check_number(at, value)
        try:
            return option.check(float(value))
        except ValueError as error:
            raise SettingsError(at, value, str(error)) from error

    def _check_examination(self, key: str) -> None:
        wanted = (self.positions,) * self.kind.table_axes
        if not wanted and self.examination is None:
            return
        shape = " × ".join(map(str, wanted))
        if self.examination is None:
            raise SettingsError(key, None, f"{self.algorithm} needs a table of {shape} chances; make one: glimpse fit")
        try:
            object.__setattr__(self, "examination", checked(self.examination))
        except (TypeError, ValueError) as error:
            raise SettingsError(key, "…", str(error)) from error
        if wanted and self.examination.shape != wanted:
            raise SettingsError(key, self.examination.shape, f"{self.algorithm} needs a table of {shape} chances")

    @property
    def kind(self) -> type[Bandit]:
        """The algorithm, with all that it says of itself."""
        return ALGORITHMS[self.algorithm]

    def draws(self, explore: float = 1.0) -> bool:
        """Return whether its lists are drawn, so that their chances are known; an algorithm may draw all of them."""
        return self.kind.draws or (self.policy == "plackett-luce" and explore > 0)

    def draw(self, scores: NDArray[np.float64], size: int, impression_id: str, *, explore: float = 1.0) -> DrawnList:
        """Return a list drawn from candidates of these scores; the id is its seed, ``explore`` a share of the noise."""
        # where the algorithm draws, every list has the same chance
        temperature, shortlist = (1.0, 0) if self.kind.draws else (self.temperature * explore, self.shortlist)
        random = random_of(impression_id)
        return draw_list(scores, size, temperature=temperature, random=random, shortlist=shortlist)

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
        if self.dim != host.dim and self.kind.contextual:
            raise SettingsError(at + "dim", self.dim, f"must be that of its host {host.name}, {host.dim}")
        if self.positions < host.positions:
            why = f"must be at least those of its host {host.name}, {host.positions}"
            raise SettingsError(at + "positions", self.positions, why)

    def model(self) -> Bandit:
        """Return a fresh learner of this bucket, without any samples."""
        return self.kind(**{key: getattr(self, key) for key in self.kind.options} | self.options)


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """The table [split] of glimpse.toml; weights and namespaces stand with the buckets."""

    salt: str = ""  # another salt draws all users anew, but for the holdout
    holdout: float = 0.0  # the share of users who are kept out of every namespace's experiment
    holdout_bucket: str | None = None  # what those meet
    sticky: bool = False  # a user known to have met a bucket stays there, whatever the weights are now
    same_ranking: str | None = None  # A/A: the bucket whose model ranks in every bucket, so that none can differ

    def __post_init__(self) -> None:
        if not isinstance(self.salt, str) or len(self.salt) > 100 or "\0" in self.salt:
            raise SettingsError("split.salt", self.salt, "must be text of at most 100 characters, without a NUL")
        check_number("split.holdout", self.holdout, least=0, most=0.9)
        if not isinstance(self.sticky, bool):
            raise SettingsError("split.sticky", self.sticky, "must be true or false")
        for key in ("holdout_bucket", "same_ranking"):
            if not isinstance(getattr(self, key), str | None):
                raise SettingsError(f"split.{key}", getattr(self, key), "must be the name of a bucket")
        if self.holdout > 0 and self.holdout_bucket is None:
            raise SettingsError("split.holdout_bucket", None, "a holdout needs one: the bucket that its users meet")

    def check_buckets(self, buckets: Mapping[str, Bucket]) -> None:
        """Refuse names of buckets that are not there, and a namespace none of whose buckets takes users."""
        for key in ("holdout_bucket", "same_ranking"):
            value = getattr(self, key)
            if value is not None and value not in buckets:
                raise SettingsError(f"split.{key}", value, f"no such bucket{did_you_mean(value, buckets)}")
        ranking = buckets.get(self.same_ranking or "")
        for bucket in buckets.values() if ranking is not None else []:
            for key in ("dim", "positions", "context_scale"):
                value = getattr(bucket, key)
                if value != getattr(ranking, key):
                    raise SettingsError(f"buckets.{bucket.name}.{key}", value, f"must be that of {self.same_ranking!r}")
        others = [bucket for name, bucket in buckets.items() if name != self.holdout_bucket]
        taking = {bucket.namespace for bucket in others if bucket.weight > 0}
        for bucket in others:
            if bucket.namespace not in taking:
                why = "one bucket of each namespace must be above 0"
                raise SettingsError(f"buckets.{bucket.name}.weight", bucket.weight, why)


class ExaminationError(ValueError):
    """A file that holds no usable examination table."""


def read_examination(file: Path) -> NDArray[np.float64]:
    """Return the table w in ``file``: K×K, or K chances for a position-based model; its hash is checked."""
    try:
        content = parse_json(file.read_text())
    except (OSError, ValueError) as error:
        raise ExaminationError(f"cannot be read as JSON: {error}") from error
    if not isinstance(content, dict) or "examination" not in content or not content.keys() <= set(TABLE_KEYS):
        raise ExaminationError(f"must be a JSON object with the keys {', '.join(TABLE_KEYS)}; make one: glimpse fit")
    try:
        table = checked(content["examination"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ExaminationError(str(error)) from error
    if content.get("positions", len(table)) != len(table):
        raise ExaminationError(f"says positions = {content['positions']} and holds a table of {len(table)}")
    if "sha256" in content and content["sha256"] != table_hash(table):
        raise ExaminationError(
            f"was changed after it was written: sha256 = {content['sha256']}, its table has {table_hash(table)}"
        )
    return table


def write_examination(
    file: Path, examination: ArrayLike, observations: ArrayLike | None = None, *, factor: float | None = None
) -> str:
    """Write a table with its hash, and return the hash; ``factor`` is what a fitted one was divided by."""
    table = checked(examination)
    content: dict[str, object] = {"positions": len(table), "examination": table.tolist()}
    if observations is not None:
        content["observations"] = np.asarray(observations).tolist()
    if factor is not None:
        content |= {"factor": factor, "scale": SCALE}
    content["sha256"] = table_hash(table)
    file.write_text(json.dumps(content) + "\n")
    return table_hash(table)


def checked(examination: ArrayLike) -> NDArray[np.float64]:
    """Return the table as floats: K×K by position and last click, or K by position."""
    table = np.array(examination, dtype=np.float64)
    return checked_positions(table) if table.ndim == 1 else checked_table(table)
