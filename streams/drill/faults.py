"""The plan of a drill: which faults, when in the load of each, and for how long."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

# What each is for at least and at most, in seconds. A freeze outlasts the session of a worker, so that it wakes as a
# zombie; the other times are those of a restart.
LENGTHS = {
    "kill-join": (0.1, 3.0),
    "kill-learn": (0.1, 3.0),
    "freeze-join": (12.0, 15.0),
    "freeze-learn": (12.0, 15.0),
    "stop-kafka": (1.0, 6.0),
    "kill-kafka": (1.0, 6.0),
    "stop-redis": (1.0, 6.0),
    "empty-redis": (0.0, 0.0),
}
WORKERS = tuple(name for name in LENGTHS if name.endswith(("join", "learn")))
SERVERS = tuple(name for name in LENGTHS if name not in WORKERS)


class DrillError(RuntimeError):
    """A drill that cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, when it strikes after its load began, and how long it lasts."""

    kind: str
    after_s: float
    for_s: float

    @property
    def action(self) -> str:
        """What is done: kill, freeze, stop or empty."""
        return self.kind.partition("-")[0]

    @property
    def target(self) -> str:
        """Whom it hits: join, learn, kafka or redis."""
        return self.kind.partition("-")[2]


def possible_faults(wanted: Sequence[str] | None, *, own_servers: bool) -> list[str]:
    """Return the kinds that a drill may draw, the ``wanted`` ones if any are; only its own servers may be broken.

    >>> possible_faults(None, own_servers=False)
    ['kill-join', 'kill-learn', 'freeze-join', 'freeze-learn']
    """
    possible = WORKERS + SERVERS if own_servers else WORKERS
    for kind in wanted or ():
        if kind not in possible:
            raise DrillError(f"no fault {kind!r} here; possible are {', '.join(possible)}")
    return list(wanted or possible)


def plan_faults(kinds: Sequence[str], number: int, *, load_s: float, seed: int) -> list[Fault]:
    """Return ``number`` faults, every kind once before any comes again, each in the middle of a load of ``load_s``.

    >>> [fault.kind for fault in plan_faults(["kill-join", "stop-redis"], 3, load_s=10, seed=1)]
    ['kill-join', 'stop-redis', 'kill-join']
    """
    dice = random.Random(seed)
    plan: list[Fault] = []
    while len(plan) < number:
        for kind in dice.sample(kinds, len(kinds))[: number - len(plan)]:
            after_s = round(dice.uniform(0.3, 0.7) * load_s, 2)
            plan.append(Fault(kind, after_s, round(dice.uniform(*LENGTHS[kind]), 2)))
    return plan
