"""The closed loop as a stream: impressions and clicks of simulated users, in the order of time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import cos, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.simulate import World, unit

Rank = Callable[[NDArray[np.float64], int, NDArray[np.int64]], NDArray[np.int64]]
"""What ``Bandit.rank`` does: the rows to show, from candidates (m, d), list size and item ids."""


class Shown(NamedTuple):
    """One list that a user was shown."""

    list_id: int
    user: int
    shown_at_ms: int
    items: NDArray[np.int64]
    contexts: NDArray[np.float32]


class Clicked(NamedTuple):
    """One click on a position (1-based) of a list."""

    list_id: int
    user: int
    position: int
    clicked_at_ms: int


def stream(
    world: World,
    rank: Rank | None,
    *,
    lists_per_s: float,
    until_s: float,
    random: np.random.Generator,
    click_delay_s: float = 20.0,
    turns_per_day: float = 0.0,
    users: int = 10_000,
    start_ms: int = 0,
) -> Iterator[Shown | Clicked]:
    """Yield what happens until ``until_s``, oldest first, then the clicks that are still to come.

    ``rank`` (None: random lists) is asked when a list is shown, so a model that learned in between ranks better. Users
    arrive at random with the stated rate. The clicks of a list come in the order of its positions, at the sorted times
    of exponential delays with mean ``click_delay_s``. The taste turns by ``turns_per_day`` full circles a day.
    """
    size = len(world.users.examination)
    waiting: list[tuple[int, int, int, Clicked]] = []  # ordered by time, then list and position
    at_s, list_id = random.exponential(1 / lists_per_s), 0
    while at_s < until_s:
        now_ms = start_ms + int(at_s * 1000)
        while waiting and waiting[0][0] <= now_ms:
            yield heappop(waiting)[-1]
        today = turned(world, 2 * pi * turns_per_day * at_s / 86_400) if turns_per_day else world
        items, contexts = today.visit(random)
        rows = rank(contexts, size, items) if rank else random.permutation(len(items))[:size]
        shown = contexts[rows]
        user = int(random.integers(users))
        yield Shown(list_id, user, now_ms, items[rows], shown.astype(np.float32))
        positions = np.flatnonzero(today.users.browse(shown[None], random)[0]) + 1
        delays = np.sort(random.exponential(click_delay_s, size=len(positions)))
        for position, delay_s in zip(positions.tolist(), delays.tolist(), strict=True):
            click = Clicked(list_id, user, position, now_ms + int(delay_s * 1000))
            heappush(waiting, (click.clicked_at_ms, list_id, position, click))
        at_s += random.exponential(1 / lists_per_s)
        list_id += 1
    while waiting:
        yield heappop(waiting)[-1]


def turned(world: World, angle: float) -> World:
    """Return the world with its taste turned by ``angle`` radians: drift that keeps every γ a chance."""
    mean, spread = world.users.taste[0], float(np.linalg.norm(world.users.taste[1:]))
    direction = unit(world.users.taste[1:])
    axis = np.eye(len(direction))[0]
    across = unit(axis - (axis @ direction) * direction)
    taste = np.concatenate(([mean], spread * (cos(angle) * direction + sin(angle) * across)))
    return replace(world, users=replace(world.users, taste=taste))
