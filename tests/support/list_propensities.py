"""The chances of a list that was drawn before, from its scores."""

from __future__ import annotations

import numpy as np

from learner.arrays import Floats, Ints
from learner.bandits.topk import best_first
from learner.plackett_luce import chances, scores_to_logits


def propensities(scores: Floats, rows: Ints, *, temperature: float, shortlist: int = 0) -> Floats:
    """Return the chance of each of ``rows`` to be drawn where it stands, given those above it.

    >>> propensities(np.log([3.0, 2.0, 1.0]), np.array([1, 0]), temperature=1.0)
    array([0.33333333, 0.75      ])
    """
    if 0 < shortlist < len(scores):
        kept = best_first(scores, shortlist)
        rank = np.full(len(scores), -1)
        rank[kept] = np.arange(shortlist)
        inside = rank[rows]
        if inside.min() < 0:
            raise ValueError(f"row {int(rows[inside.argmin()])} is not among the {shortlist} best that can be drawn")
        return chances(scores_to_logits(scores[kept], temperature), inside)
    return chances(scores_to_logits(scores, temperature), rows)
