"""Day one in small: what each learner makes of an old ranker's log, before any of them has shown a list."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from learner.experiments.day_one import DayOne, standings
from streams.offline import DayOneRow

SEEDS = 5
LOG = DayOne(lists=6000, served=2000)
OLD_RANKERS = {"ranker knew nothing": LOG, "ranker half right": replace(LOG, likeness=0.5)}
BLOCK = "12 of 40 candidates, users who look at 55% of first and 17% of last positions"
COMMANDS = """The same on your own topics:
  glimpse fit kafka --out table.json
  glimpse replay kafka --algorithm ubm-linucb --table table.json --out snapshots
  glimpse evaluate kafka --policy snapshots --table table.json"""


@cache
def first_day(seed: int) -> list[DayOneRow]:
    """Return how the learners stand after learning from the logs of two old rankers."""
    return [
        DayOneRow(BLOCK, name, standings([world.play(seed * SEEDS + place) for place in range(SEEDS)]))
        for name, world in OLD_RANKERS.items()
    ]
