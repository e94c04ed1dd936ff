"""The best of the candidates of one request, and the contexts that they are logged with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from learner import Bandit
from learner.bandits import LinearRanking, Ranking
from streams.rank.catalogue import Catalogue
from streams.rank.requests import RankRequest, RequestError
from streams.settings import Bucket

Model = Ranking | Bandit


class Choice(NamedTuple):
    """Items from the top, with their contexts (K, d)."""

    items: NDArray[np.int64]
    contexts: NDArray[np.float64]
    user_known: bool


def choose(request: RankRequest, bucket: Bucket, model: Model, catalogue: Catalogue | None) -> Choice:
    """Return the list for a request; what cannot be ranked raises ValueError or LookupError with the reason."""
    size = request.size or bucket.positions
    if size > bucket.positions:
        raise RequestError(f"size {size} is more than the {bucket.positions} positions of bucket {bucket.name!r}")
    if request.items is not None and request.contexts is not None:
        contexts = request.contexts if bucket.dim else np.empty((len(request.items), 0))
        rows = np.empty(0, np.int64)
        if len(contexts):
            rows = model.rank(contexts, size, request.items, explore=request.explore)
        return Choice(request.items[rows], contexts[rows], True)
    if catalogue is None:
        raise RequestError("no catalogue is held here: give candidates.items and candidates.contexts, or --catalogue")
    return _held(request, bucket, model, catalogue, size)


def _held(request: RankRequest, bucket: Bucket, model: Model, catalogue: Catalogue, size: int) -> Choice:
    user = request.user_features if request.user_features is not None else catalogue.user(request.user)
    known = user is not None or not catalogue.recipe.needs_user
    if user is None:
        user = np.zeros(catalogue.user_columns)  # a stranger: what needs no user still tells the items apart
    if len(user) != catalogue.user_columns:
        raise RequestError(f"user_features must be {catalogue.user_columns} numbers, got {len(user)}")
    check_scale(catalogue, bucket, user=float(np.abs(user).max(initial=0.0)))
    rows = _candidates(request, catalogue)
    held, norms = (catalogue.held, catalogue.norms) if rows is None else (catalogue.held[rows], catalogue.norms[rows])
    if not len(held):
        return Choice(np.empty(0, np.int64), np.empty((0, bucket.dim)), known)
    mapping = catalogue.recipe.matrix(catalogue.item_columns, user)
    if isinstance(model, LinearRanking):
        best = model.rank_mapped(held, mapping, norms=norms, size=size, explore=request.explore)
    else:
        ids = catalogue.items if rows is None else catalogue.items[rows]
        best = model.rank(np.empty((len(held), 0)), size, ids, explore=request.explore)
    chosen = best if rows is None else rows[best]
    contexts = catalogue.held[chosen] @ mapping.T if bucket.dim else np.empty((len(chosen), 0))
    return Choice(catalogue.items[chosen], contexts, known)


def _candidates(request: RankRequest, catalogue: Catalogue) -> NDArray[np.int64] | None:
    """Return the rows to choose from; None is all of them."""
    if request.items is not None:
        rows = catalogue.rows_of(request.items)
        return rows[~np.isin(request.items, request.without)] if request.without else rows
    return catalogue.rows(tags=request.tags, without=request.without) if request.tags or request.without else None


def check_scale(catalogue: Catalogue, bucket: Bucket, *, user: float) -> None:
    """Refuse contexts that the bucket would not learn from: of another length, or with larger numbers."""
    if bucket.dim and catalogue.dim != bucket.dim:
        raise RequestError(
            f"the catalogue's recipe makes contexts of {catalogue.dim} numbers, bucket {bucket.name!r} wants "
            f"{bucket.dim}"
        )
    largest = {"constant": 1.0, "item": catalogue.largest_item, "user": user, "products": catalogue.largest_item * user}
    for part in catalogue.recipe.parts:
        if bucket.dim and largest[part] > bucket.context_scale:
            raise RequestError(
                f"{part} features reach {largest[part]:g}, beyond ±{bucket.context_scale:g}, the context_scale of "
                f"bucket {bucket.name!r}"
            )
