"""The paper's web search experiment on a click log: K = 3, 4, 5, 6 of the items that a page showed.

As in the paper: the three most frequent queries; w by EM; an attractiveness matrix of contexts by items, Σ click / Σ w;
features [U(i), V(j)] from its SVD, truncated to 10 dimensions; each round a random context, whose shown items are the
candidates; rewards w[k, k′] times the matrix. What differs: the SVD is exact where the paper's is randomised; the
public sample has no users, so a context is a query with one set of items shown (all its pages count together) where the
paper has a user; contexts with few pages are left out, attractiveness is at most 1, and an item is told apart by its
query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.browsing import previous_click
from learner.click_models import PBM, UBM
from learner.experiments.arena import Earned, Visits, batches, compete
from learner.experiments.policies import Entry, Knowledge, entered

Floats = NDArray[np.float64]

PART = 1000  # visits made at once


@dataclass(frozen=True, slots=True)
class Yandex:
    """Contexts with their candidates, and how often each was seen in the log."""

    items: NDArray[np.int64]  # (contexts, m), numbers of (query, item)
    attractiveness: Floats  # (contexts, m)
    features: Floats  # (contexts, m, 2 · rank), of length 1 at most
    share: Floats  # (contexts,) of the pages
    known: Knowledge
    kept: float  # share of the chosen queries' pages whose context has enough of them

    @classmethod
    def from_log(
        cls,
        items: NDArray[np.int64],
        clicks: Floats,
        queries: NDArray[np.int64],
        *,
        top: int = 3,
        rank: int = 10,
        pages: int = 20,
    ) -> "Yandex":
        """Return the experiment on a log of pages (n, m): the ``top`` queries, contexts of at least ``pages`` pages."""
        ubm, pbm = UBM().fit(items, clicks, queries), PBM().fit(items, clicks, queries)
        names, counts = np.unique(queries, return_counts=True)
        chosen = np.isin(queries, names[np.argsort(-counts, kind="stable")[:top]])
        items, clicks, queries = items[chosen], clicks[chosen], queries[chosen]
        pairs, numbers = np.unique(
            np.stack([np.repeat(queries, items.shape[1]), items.ravel()]), axis=1, return_inverse=True
        )
        numbered = numbers.reshape(items.shape)
        contexts, context = np.unique(np.sort(numbered, axis=1), axis=0, return_inverse=True)
        context = context.reshape(-1)
        seen = ubm.examination[np.arange(items.shape[1]), previous_click(clicks)]
        shape = (len(contexts), pairs.shape[1])
        cell = (context[:, None] * shape[1] + numbered).ravel()
        clicked = np.bincount(cell, clicks.ravel(), shape[0] * shape[1])
        examined = np.bincount(cell, seen.ravel(), shape[0] * shape[1])
        matrix = np.minimum(np.divide(clicked, examined, out=np.zeros_like(clicked), where=examined > 0), 1.0)
        matrix = matrix.reshape(shape)
        count = np.bincount(context)
        enough = count >= pages
        if enough.sum() < 2:
            raise ValueError(
                f"{int(enough.sum())} of {len(enough)} contexts have at least {pages} pages; the experiment needs two: "
                "take a larger log, more queries or fewer pages"
            )
        matrix, contexts = matrix[enough], contexts[enough]
        left, _, right = np.linalg.svd(matrix, full_matrices=False)  # the largest singular values first
        left, right = left[:, :rank], right[:rank].T
        users = np.broadcast_to(left[:, None], (*contexts.shape, left.shape[1]))
        features = np.concatenate([users, right[contexts]], axis=2)
        return cls(
            items=contexts,
            attractiveness=np.take_along_axis(matrix, contexts, axis=1),
            features=features / np.linalg.norm(features, axis=2).max(),
            share=count[enough] / count[enough].sum(),
            known=Knowledge(ubm.examination, pbm.examination),
            kept=float(count[enough].sum() / count.sum()),
        )

    def play(self, entries: Sequence[Entry], *, size: int, rounds: int, seed: int) -> Mapping[Entry, Earned]:
        """Return what each entry earns with lists of ``size`` when contexts come as the seed has it."""
        return compete(
            entered(entries, dim=self.features.shape[2], known=self.known.cut(size)),
            batches(self._visits(np.random.default_rng([seed, 2])), rounds=rounds),
            size=size,
            examination=self.known.table,
            seed=seed,
        )

    def _visits(self, random: np.random.Generator) -> Iterator[Visits]:
        while True:
            drawn = random.choice(len(self.share), size=PART, p=self.share)
            gamma = self.attractiveness[drawn]
            yield Visits(self.items[drawn], self.features[drawn], gamma, gamma).shuffled(random)
