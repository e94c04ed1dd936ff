"""Plackett–Luce lists: drawn from scores one position after the other, each with the chance that it had."""

from hashlib import sha256
from typing import NamedTuple

import numpy as np

from learner.arrays import Floats, Ints
from learner.bandits.topk import best_first

SMALLEST = 2.0**-54  # in place of a uniform draw of 0, which has no logarithm


class DrawnList(NamedTuple):
    """Rows of the candidates, best first, and the chance of each to be drawn there, given those above it."""

    rows: Ints
    propensities: Floats


def draw_list(
    scores: Floats, size: int, *, temperature: float, random: np.random.Generator, shortlist: int = 0
) -> DrawnList:
    """Return a list in which each next item is drawn with a chance in proportion to e^(score / temperature).

    Adding Gumbel noise to the scores and taking the best is the same draw at once. The chances of a list multiply to
    the chance of the whole of it. With a ``shortlist`` only so many of the best scores can be drawn; 0 means all.

    >>> draw_list(np.zeros(4), 2, temperature=1.0, random=random_of("list-1"))
    DrawnList(rows=array([1, 3]), propensities=array([0.25      , 0.33333333]))
    """
    if 0 < shortlist < len(scores):
        if shortlist < size:
            raise ValueError(f"a shortlist of {shortlist} cannot fill a list of {size}")
        kept = best_first(scores, shortlist)
        drawn = draw_list(scores[kept], size, temperature=temperature, random=random)
        return DrawnList(kept[drawn.rows], drawn.propensities)
    logits = scores_to_logits(scores, temperature)
    uniform = np.maximum(random.random(len(logits)), SMALLEST)
    rows = best_first(logits - np.log(-np.log(uniform)), size)
    return DrawnList(rows, chances(logits, rows))


def scores_to_logits(scores: Floats, temperature: float) -> Floats:
    """Return scores / temperature, the largest at 0, so that no score is too large for its noise."""
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    return np.asarray((scores - scores.max(initial=-np.inf)) / temperature)


def chances(logits: Floats, rows: Ints) -> Floats:
    """Return e^logit over the sum of what was left at each position; added up from the end, so nothing cancels."""
    left = np.ones(len(logits), dtype=np.bool_)
    left[rows] = False
    never = logits[left]
    chosen = logits[rows]
    largest = float(never.max(initial=-np.inf))
    rest = largest + np.log(np.exp(never - largest).sum()) if len(never) else -np.inf
    sums = np.logaddexp.accumulate(np.concatenate(([rest], chosen[::-1])))[:0:-1]
    return np.asarray(np.exp(chosen - sums))


def random_of(name: str) -> np.random.Generator:
    """Return the random numbers of a list: its impression's id is their seed, so the list can be drawn again."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(sha256(name.encode()).digest()[:16])))
