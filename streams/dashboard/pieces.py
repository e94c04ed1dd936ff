"""Which parts of a log to read: all of it, or an even share when there is too much (pure)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """Offsets to read of one partition, and how many offsets each of them stands for."""

    start: int
    stop: int
    weight: float = 1.0


class TokenBucket:
    """How many records may be read, saved up to ``most``: all of a poll or nothing, so that gaps are few.

    >>> allowed = TokenBucket(300)
    >>> [allowed.takes(wanted, earned=10) for wanted in (200, 200, 5)]
    [True, False, False]
    >>> allowed.takes(20, earned=300)
    True
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._left, self._resting = most, False

    def takes(self, wanted: int, *, earned: float) -> bool:
        """Return whether so many may be read now; once they were too many, only when all is saved up again."""
        self._left = min(self.most, self._left + earned)
        self._resting = wanted > self._left or (self._resting and self._left < self.most)
        self._left -= 0 if self._resting else wanted
        return not self._resting


def whole(start: int, stop: int) -> list[Piece]:
    """Return a range as a piece, nothing of an empty one."""
    return [Piece(start, stop)] if stop > start else []


def thinned(start: int, stop: int, share: float, chance: random.Random) -> list[Piece]:
    """Return a part of a range, anywhere in it, that is a ``share`` of it, or of many such ranges on average.

    >>> thinned(100, 200, 1.0, random.Random(1)), thinned(100, 100, 0.5, random.Random(1))
    ([Piece(start=100, stop=200, weight=1.0)], [])
    >>> [piece] = thinned(100, 200, 0.25, random.Random(1))
    >>> piece.stop - piece.start, piece.weight
    (25, 4.0)
    """
    span = stop - start
    if span <= 0 or share >= 1:
        return whole(start, stop)
    if span * share < 1 and chance.random() >= span * share:
        return []
    size, weight = (1, 1 / share) if span * share < 1 else (round(span * share), span / round(span * share))
    first = start + chance.randrange(span - size + 1)
    return [Piece(first, first + size, weight)]


def spread(bounds: Sequence[int], share: float, most: int, chance: random.Random) -> deque[Piece]:
    """Return pieces of a long history that are a ``share`` of each of its parts, at most so many; ``bounds`` rise.

    >>> [tuple(piece) for piece in spread([0, 400, 1000], 1.0, 10, random.Random(1))]
    [(0, 1000, 1.0)]
    >>> thin = spread([0, 400, 1000], 0.1, 10, random.Random(1))
    >>> len(thin), sum(piece.weight * (piece.stop - piece.start) for piece in thin)
    (10, 1000.0)
    """
    if share >= 1:
        return deque(whole(bounds[0], bounds[-1]))
    parts = max(1, most // max(1, len(bounds) - 1))
    fine = np.concatenate([np.linspace(start, stop, parts + 1)[:-1] for start, stop in pairwise(bounds)])
    ends = [*fine.astype(np.int64).tolist(), bounds[-1]]
    return deque(piece for start, stop in pairwise(ends) for piece in thinned(start, stop, share, chance))


def that_fit(rates: Mapping[int, float], *, most: int, per_s: float) -> set[int]:
    """Return the first partitions, at most so many, that together stay below a rate; one at least.

    >>> that_fit({0: 5.0, 1: 4.0, 2: 3.0}, most=16, per_s=10)
    {0, 1}
    """
    chosen: set[int] = set()
    for number in sorted(rates)[:most]:
        per_s -= rates[number]
        if chosen and per_s < 0:
            break
        chosen.add(number)
    return chosen
