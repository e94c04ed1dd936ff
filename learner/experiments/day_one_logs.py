"""Day one on a public click log, whose ranker was a real one: learned from some pages, judged on others.

There are no features, so each pair of query and item is one, and every learner's θ follows from its sums alone:
Σ w r / (λ + Σ w²) over the rows that it learns from. What a reordering of other pages would earn is judged by UBM-IPS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from learner.click_models import UBM
from learner.evaluate import LoggedLists, Policy, ubm_ips
from learner.experiments.summary import Mean

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIDGE = 1.0


class Pages(NamedTuple):
    """Result pages: numbers of (query, item) pairs in the order shown, clicks, and the query of each page."""

    pairs: Ints  # (n, K)
    clicks: Floats  # (n, K)
    queries: Ints  # (n,)

    def at(self, rows: Ints) -> Pages:
        """Return these pages."""
        return Pages(self.pairs[rows], self.clicks[rows], self.queries[rows])


def learned(pages: Pages, table: Floats, pairs: int) -> dict[str, Floats]:
    """Return each learner's estimate of every pair, 0 for what it learned nothing of."""
    last = previous_click(pages.clicks)
    here_or_below = np.logical_or.accumulate(pages.clicks[:, ::-1] > 0, axis=1)[:, ::-1]
    seen = table[np.arange(pages.pairs.shape[1]), last]
    weights = {
        "c2ucb": np.ones(seen.shape),
        "cm-linucb": (last == 0) * 1.0,
        "dcm-linucb": (here_or_below | ~here_or_below[:, :1]) * 1.0,
        "ubm, w fitted": seen,
    }
    estimates = {}
    for name, weight in weights.items():
        gram = np.bincount(pages.pairs.ravel(), (weight**2).ravel(), pairs)
        response = np.bincount(pages.pairs.ravel(), (weight * pages.clicks).ravel(), pairs)
        estimates[name] = np.asarray(response / (RIDGE + gram))
    return estimates


def reordered(pages: Pages, estimate: Floats) -> Ints:
    """Return each page's pairs, best first; equal estimates stay in the old order."""
    order = np.argsort(-estimate[pages.pairs], axis=1, kind="stable")
    return np.take_along_axis(pages.pairs, order, axis=1)


def play(train: Pages, judged: Pages, *, seed: int) -> dict[str, float]:
    """Return the CTR_sum that each learner's order earns on the judged pages, both logs drawn anew (bootstrap)."""
    random = np.random.default_rng(seed)
    pairs = int(max(train.pairs.max(), judged.pairs.max())) + 1
    train, judged = (pages.at(random.integers(len(pages.pairs), size=len(pages.pairs))) for pages in (train, judged))
    table = UBM(prior="empirical").fit(train.pairs, train.clicks).examination
    table = np.minimum(table / table[0, 0], 1.0)
    shown = np.column_stack([judged.queries, np.sort(judged.pairs, axis=1)])
    _, first, context = np.unique(shown, axis=0, return_index=True, return_inverse=True)
    log = LoggedLists.of(judged.pairs, judged.clicks, context.reshape(-1))
    estimates = {"old ranker": np.zeros(pairs), **learned(train, table, pairs)}
    return {
        name: ubm_ips(log, Policy.of(reordered(judged.at(first), estimate)), examination=table).value
        for name, estimate in estimates.items()
    }


def lifts(played: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Return each learner's lift over C²UCB, with the half-width of its 95% bootstrap interval."""
    by_learner = {}
    for name in played[0]:
        values = np.array([each[name] / each["c2ucb"] - 1 for each in played])
        by_learner[name] = Mean(float(values.mean()), float(1.96 * values.std(ddof=1)) if len(values) > 1 else None)
    return by_learner
