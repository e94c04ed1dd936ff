"""Where weighting by examination pays when every algorithm learns from its own lists: a map over kinds of traffic.

C²UCB regresses w(rank) · γ on x with ranks of its own making: its new θ is a mix of the truth and of its old θ. How
much that costs depends on how steeply w falls, how often users click, whether candidates change, and how long it
learns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.experiments.arena import Visits, batches, compete
from learner.experiments.day_one import steep
from learner.experiments.policies import Entry, Knowledge, entered
from learner.simulate import World

Floats = NDArray[np.float64]
Lifts = Mapping[tuple[str, str, int], float]
"""Lift of CTR_sum over C²UCB with the same kind of α, by algorithm, kind of α and rounds."""

POWERS = (0.25, 0.5, 1.0, 2.0)  # w = 0.95/k^power
LEVELS = (0.03, 0.1, 0.3)  # mean γ
SIZE, CANDIDATES, ITEMS, DIM = 6, 12, 300, 10
ALPHAS = (0.0, 0.1, 0.3)  # tuned: the best of these for each algorithm, on a world of its own
NAMES = ("c2ucb", "cm-linucb", "dcm-linucb", "ubm-linucb")
ORACLE = Entry("oracle")
WORLDS = {  # the map's own, and one for each way in which the truth may not be what is believed
    "": "UBM users",
    "pbm": "PBM users",
    "dcm": "DCM users",
    "factor": "a table times 0.3",
    "noise": "a table with noise",
    "drifting": "a drifting taste",
}
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
    odd: str = ""  # in which way the truth is not what is believed

    def play(self, seed: int) -> Lifts:
        """Return the lifts over C²UCB, α being the theorem's for all, or each one's best."""
        tried = self._earned(TUNING + seed, [Entry(name, alpha) for name in NAMES for alpha in ALPHAS])
        last = {entry: by_rounds[self.rounds] for entry, by_rounds in tried.items() if entry.name in NAMES}
        tuned = [max((entry for entry in last if entry.name == name), key=last.__getitem__) for name in NAMES]
        theorem = [Entry(name) for name in NAMES]
        earned = self._earned(seed, list(dict.fromkeys(tuned + theorem)))
        pairs = [("tuned", entry, tuned[0]) for entry in tuned]
        pairs += [("theorem", entry, theorem[0]) for entry in theorem] + [("tuned", ORACLE, tuned[0])]
        return {
            (entry.name, kind, at): value / earned[base][at] - 1
            for kind, entry, base in pairs
            for at, value in earned[entry].items()
        }

    def _earned(self, seed: int, entries: list[Entry]) -> dict[Entry, dict[int, float]]:
        believed, stays = steep(self.power, SIZE), None
        if self.odd not in ("pbm", "dcm"):  # behind a click users look further down
            believed = np.tril(np.minimum(believed * np.where(np.arange(SIZE) > 0, 1.3, 1.0), 0.95))
        table = believed
        if self.odd == "dcm":
            table, stays = np.tri(SIZE), np.linspace(0.8, 0.3, SIZE)
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
        if self.odd == "factor":
            believed = 0.3 * believed
        elif self.odd == "noise":
            noise = np.exp(0.5 * np.random.default_rng([seed, 3]).normal(size=believed.shape))
            believed = np.minimum(believed * noise, 1.0)
        earned = compete(
            entered([*entries, ORACLE], dim=DIM, known=Knowledge(believed, believed[:, 0])),
            batches(self._visits(world, np.random.default_rng([seed, 2])), rounds=self.rounds),
            size=SIZE,
            examination=table,
            seed=seed,
            continuation=stays,
        )
        at = np.array([self.rounds // 5, self.rounds])
        return {name: dict(zip(at.tolist(), each.curve(at)[0].tolist(), strict=True)) for name, each in earned.items()}

    def _visits(self, world: World, random: np.random.Generator) -> Iterator[Visits]:
        taste, other = world.users.taste, random.permutation(world.users.taste[1:])
        shown = 0
        while True:
            items, contexts = world.visits(random, PART)
            now = taste
            if self.odd == "drifting":
                share = DRIFT * min(shown / self.rounds, 1.0)
                now = np.concatenate([taste[:1], (1 - share) * taste[1:] + share * other])
            gamma = np.clip(contexts @ now, 0.0, 1.0)
            shown += PART
            yield Visits(items, contexts, gamma, gamma)


def worlds(rounds: int) -> list[Gap]:
    """Return the map's worlds, and the odd ones."""
    grid = [Gap(power, level, changing, rounds) for changing in (True, False) for power in POWERS for level in LEVELS]
    return grid + [Gap(1.0, 0.1, rounds=rounds, odd=odd) for odd in WORLDS if odd]
