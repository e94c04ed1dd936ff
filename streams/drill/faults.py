"""The faults of a drill: which, when and for how long, and what came of each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

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
    def parts(self) -> tuple[str, str]:
        """What is done (kill, freeze, stop or empty), and to whom (join, learn, kafka or redis)."""
        action, _, target = self.kind.partition("-")
        return action, target


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fault hit, how long it took until all of that was learned, and how the state then differs from the golden.

    ``pending`` lists had been written and not learned when it struck; ``recovered_s`` counts from the fault's end and
    is None when they were never all learned; ``ended`` workers gave up by themselves and were started again.
    """

    fault: Fault
    hit: str
    pending: int
    recovered_s: float | None
    lists: int
    differences: tuple[str, ...]
    ended: int = 0

    @property
    def good(self) -> bool:
        """Whether work was pending, all of it was learned, and every bit is the golden run's."""
        return self.pending > 0 and self.recovered_s is not None and not self.differences

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.differences:
            return "; ".join(self.differences)
        return "same bits" if self.pending else "struck while nothing was pending"


def table_of(outcomes: Iterable[Outcome]) -> Table:
    """Return the outcomes as a table for the terminal."""
    table = Table("fault", "after", "hit", "lasted", "recovered", "lists so far", "verdict")
    for outcome in outcomes:
        fault, recovered_s = outcome.fault, outcome.recovered_s
        ended = f" ({outcome.ended} workers gave up and were started again)" if outcome.ended else ""
        table.add_row(
            fault.kind,
            f"{fault.after_s:.1f} s",
            f"{outcome.hit}, {outcome.pending} lists pending",
            f"{fault.for_s:.1f} s",
            "never" if recovered_s is None else f"{recovered_s:.1f} s",
            str(outcome.lists),
            outcome.verdict + ended,
        )
    return table
