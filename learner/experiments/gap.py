"""Where weighting by examination pays when every algorithm learns from its own lists: a map over kinds of traffic.

C²UCB regresses w(rank) · γ on x with ranks of its own making: its new θ is a mix of the truth and of its old θ. How
much that costs depends on how steeply w falls, how often users click, whether candidates change, and how long it
learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from learner.experiments.arena import compete
from learner.experiments.day_one import steep
from learner.experiments.policies import Entry, Knowledge, OnlinePolicy, Oracle, entered
from learner.experiments.visits import Visits, batches
from learner.simulate import World

Floats = NDArray[np.float64]
Lifts = Mapping[tuple[str, str, int], float]
"""Lift of CTR_sum over C²UCB with the same kind of α, by algorithm, kind of α and rounds."""

POWERS = (0.25, 0.5, 1.0, 2.0)  # w = 0.95/k^power
LEVELS = (0.03, 0.1, 0.3)  # mean γ
SIZE, CANDIDATES, ITEMS, DIM = 6, 12, 300, 10
ALPHAS = (0.0, 0.1, 0.3)  # tuned: the best of these for each algorithm, on a world of its own
NAMES = ("c2ucb", "cm-linucb", "dcm-linucb", "ubm-linucb")
TUNING = 1000  # added to a seed
DRIFT = 0.5  # of the taste that is another one in the end
PART = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """One kind of traffic."""

    power: float
    level: float
    changing: bool = True  # whether candidates change from visit to visit
    rounds: int = 5000
    users: Literal["ubm", "pbm", "dcm"] = "ubm"
    wrong: Literal["", "factor", "noise"] = ""
    drifting: bool = False

    @property
    def name(self) -> str:
        """What is different from the map's other worlds."""
        if self.drifting:
            return "a drifting taste"
        if self.wrong:
            return "a table times 0.3" if self.wrong == "factor" else "a table with noise"
        return f"{self.users.upper()} users"

    def play(self, seed: int) -> Lifts:
        """Return the lifts over C²UCB, α being the theorem's for all, or each one's best."""
        tried = self._earned(TUNING + seed, [Entry(name, alpha) for name in NAMES for alpha in ALPHAS])
        best = {
            name: max(ALPHAS, key=lambda alpha, name=name: tried[Entry(name, alpha)][self.rounds])  # type: ignore[misc]
            for name in NAMES
        }
        tuned, theorem = [Entry(name, best[name]) for name in NAMES], [Entry(name) for name in NAMES]
        found = self._earned(seed, list(dict.fromkeys(tuned + theorem)))
        lifts = {}
        for kind, entries in (("tuned", tuned), ("theorem", theorem)):
            for name, entry in zip(NAMES, entries, strict=True):
                for at, value in found[entry].items():
                    lifts[name, kind, at] = value / found[entries[0]][at] - 1
        for at, value in found[Entry("oracle")].items():
            lifts["oracle", "tuned", at] = value / found[tuned[0]][at] - 1
        return lifts

    def _earned(self, seed: int, entries: list[Entry]) -> dict[Entry, dict[int, float]]:
        table = steep(self.power, SIZE) if self.users != "dcm" else np.tri(SIZE)
        stays = np.linspace(0.8, 0.3, SIZE) if self.users == "dcm" else None
        if self.users == "ubm":  # behind a click users look further down
            table = np.minimum(table * np.where(np.arange(SIZE) > 0, 1.3, 1.0), 0.95)
        table = np.tril(table)
        world = World.random(
            np.random.default_rng([seed, 0]),
            dim=DIM,
            examination=table,
            continuation=stays,
            items=ITEMS if self.changing else CANDIDATES,
            candidates=CANDIDATES,
            mean=self.level,
            spread=0.9 * self.level,
            personal=0.7 if self.changing else 0.0,
        )
        believed = steep(self.power, SIZE) if self.users == "dcm" else table
        if self.wrong == "factor":
            believed = 0.3 * believed
        elif self.wrong == "noise":
            noise = np.exp(0.5 * np.random.default_rng([seed, 3]).normal(size=believed.shape))
            believed = np.minimum(believed * noise, 1.0)
        policies: dict[Entry, OnlinePolicy] = {**entered(entries, dim=DIM, known=Knowledge(believed, believed[:, 0]))}
        policies[Entry("oracle")] = Oracle()
        earned = compete(
            policies,
            batches(self._visits(world, np.random.default_rng([seed, 2])), rounds=self.rounds),
            size=SIZE,
            examination=table,
            seed=seed,
            continuation=stays,
        )
        at = np.array([self.rounds // 5, self.rounds])
        return {
            entry: dict(zip(at.tolist(), found.curve(at)[0].tolist(), strict=True)) for entry, found in earned.items()
        }

    def _visits(self, world: World, random: np.random.Generator) -> Iterator[Visits]:
        taste, other = world.users.taste, random.permutation(world.users.taste[1:])
        shown = 0
        while True:
            items, contexts = world.visits(random, PART)
            now = taste
            if self.drifting:
                share = DRIFT * min(shown / self.rounds, 1.0)
                now = np.concatenate([taste[:1], (1 - share) * taste[1:] + share * other])
            gamma = np.clip(contexts @ now, 0.0, 1.0)
            shown += PART
            yield Visits(items, contexts, gamma, gamma)


def worlds(rounds: int) -> list[Gap]:
    """Return the map's worlds, and one for each way in which the truth may not be what is believed."""
    grid = [Gap(power, level, changing, rounds) for changing in (True, False) for power in POWERS for level in LEVELS]
    odd = [
        Gap(1.0, 0.1, rounds=rounds, users="pbm"),
        Gap(1.0, 0.1, rounds=rounds, users="dcm"),
        Gap(1.0, 0.1, rounds=rounds, wrong="factor"),
        Gap(1.0, 0.1, rounds=rounds, wrong="noise"),
        Gap(1.0, 0.1, rounds=rounds, drifting=True),
    ]
    return grid + odd


def place(examination: Floats, observations: NDArray[np.int64]) -> float:
    """Return how steeply a table falls: the power of the depth k that fits it best, each cell by its rows.

    >>> round(place(steep(0.7, 5), np.tri(5, dtype=np.int64)), 6)
    0.7
    """
    if examination.ndim == 1:
        examination, observations = examination[:, None], observations[:, None]
    depth = np.broadcast_to(np.log(np.arange(1, len(examination) + 1))[:, None], examination.shape)
    used = (examination > 0) & (observations > 0)
    x, y, rows = depth[used], np.log(examination[used]), observations[used]
    x, y = x - np.average(x, weights=rows), y - np.average(y, weights=rows)
    spread = float(np.average(x * x, weights=rows))
    return float(-np.average(x * y, weights=rows) / spread) if spread else 0.0
