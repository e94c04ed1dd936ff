"""The best of the candidates of one request, and the contexts that they are logged with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learner.arrays import Floats, Ints
from learner.bandits import Ranking
from learner.plackett_luce import random_of
from streams.events import CANDIDATES_BYTES
from streams.rank.catalogue import Catalogue
from streams.rank.recipe import CODE
from streams.rank.requests import Candidates, RankRequest, RequestError
from streams.settings import Bucket


class Choice(NamedTuple):
    """Items from the top, with their contexts (K, d)."""

    items: Ints
    contexts: Floats
    user_known: bool
    propensities: Floats | None = None  # of a list that was drawn
    candidates: Candidates | None = None  # that it was drawn from, where they fit a record and are not all that is held


NOTHING = np.empty(0, np.int64)


def choose(
    request: RankRequest, bucket: Bucket, model: Ranking, catalogue: Catalogue | None, *, impression_id: str = ""
) -> Choice:
    """Return the list for a request; what cannot be ranked raises ValueError or LookupError with the reason.

    Lists of a bucket that draws them are drawn with the impression's id as the seed; so is the order of items that tie
    by their ids.
    """
    size = request.size or bucket.positions
    if size > bucket.positions:
        raise RequestError(f"size {size} is more than the {bucket.positions} positions of bucket {bucket.name!r}")
    if request.items is not None and request.contexts is not None:
        contexts = _given(request.contexts, bucket)
        propensities = None
        if not len(contexts):
            rows = NOTHING
        elif bucket.draws(request.explore):
            scores = model.scores(contexts, request.items, explore=request.explore)
            rows, propensities = bucket.draw(scores, size, impression_id, explore=request.explore)
        elif model.contextual:
            rows = model.rank(contexts, size, request.items, explore=request.explore)
        else:
            rows = _best_items(model, request.items, size, explore=request.explore, seed=impression_id)
        drawn_from = None if propensities is None else _bounded(request.items, contexts)
        return Choice(request.items[rows], contexts[rows], True, propensities, drawn_from)
    if catalogue is None:
        raise RequestError("no catalogue is held here: give candidates.items and candidates.contexts, or --catalogue")
    return _held(request, bucket, model, catalogue, size=size, impression_id=impression_id)


def _held(
    request: RankRequest, bucket: Bucket, model: Ranking, catalogue: Catalogue, *, size: int, impression_id: str
) -> Choice:
    user = request.user_features if request.user_features is not None else catalogue.user(request.user)
    known = user is not None or not catalogue.recipe.needs_user
    if user is not None and len(user) != catalogue.user_columns:
        raise RequestError(f"user_features must be {catalogue.user_columns} numbers, got {len(user)}")
    check_scale(catalogue, bucket, user=0.0 if user is None else float(np.abs(user).max(initial=0.0)))
    rows, seen = _candidates(request, catalogue), catalogue.seen_by(user)

    def best(size: int) -> Ints:
        """Return the best rows of the catalogue among the candidates."""
        if model.contextual:
            order = seen.best(model, rows, size=size, explore=request.explore)
        else:
            ids = catalogue.items if rows is None else catalogue.items[rows]
            seed = None if bucket.draws(request.explore) else impression_id  # a drawn shortlist had chances of its own
            order = _best_items(model, ids, size, explore=request.explore, seed=seed)
        return order if rows is None else rows[order]

    propensities = drawn_from = None
    if rows is not None and not len(rows):
        chosen = NOTHING
    elif bucket.draws(request.explore):
        everything = np.arange(len(catalogue.items)) if rows is None else rows
        among = best(bucket.shortlist) if bucket.shortlist else everything
        if model.contextual:
            scores = model.scores(seen.contexts(among), explore=request.explore)
        else:
            scores = model.scores(np.empty((len(among), 0)), catalogue.items[among], explore=request.explore)
        drawn, propensities = bucket.draw(scores, size, impression_id, explore=request.explore)
        chosen = among[drawn]
        if rows is not None:
            drawn_from = _bounded(catalogue.items[rows], np.empty((len(rows), 0)))  # contexts are the catalogue's
    else:
        chosen = best(size)
    contexts = seen.contexts(chosen) if bucket.dim else np.empty((len(chosen), 0))
    return Choice(catalogue.items[chosen], contexts, known, propensities, drawn_from)


def _best_items(model: Ranking, items: Ints, size: int, *, explore: float, seed: str | None) -> Ints:
    """Return the best rows by a model that knows items only by their ids; those that tie are drawn if there is a seed.

    All new items tie. In row order everybody would see the same few of them until those lists close, and trying
    thousands would take thousands of such waits, however many users come.
    """
    order = np.arange(len(items)) if seed is None else random_of(seed).permutation(len(items))
    return order[model.rank(np.empty((len(items), 0)), size, items[order], explore=explore)]


def _given(contexts: Floats, bucket: Bucket) -> Floats:
    """Return contexts that came with a request, if the bucket learns from such; one without contexts needs none."""
    if not bucket.dim:
        return np.empty((len(contexts), 0))
    if contexts.shape[1] != bucket.dim:
        raise RequestError(f"contexts have {contexts.shape[1]} numbers; bucket {bucket.name!r} wants {bucket.dim}")
    too_large = np.abs(contexts) > bucket.context_scale
    if too_large.any():  # here the candidate has a name, shown or not; the rule knows positions of the list
        row, column = np.argwhere(too_large)[0]
        raise RequestError(
            f"$.candidates.contexts[{row}][{column}] is {contexts[row, column]:g}, not within "
            f"±{bucket.context_scale:g}, the context_scale of bucket {bucket.name!r}"
        )
    return contexts


def _bounded(items: Ints, contexts: Floats) -> Candidates | None:
    """Return candidates that an impression may carry; with them, other policies can be judged on what was drawn."""
    fits = items.nbytes + contexts.nbytes // 2 <= CANDIDATES_BYTES  # contexts are logged as float32
    return Candidates(items, contexts) if fits else None


def _candidates(request: RankRequest, catalogue: Catalogue) -> Ints | None:
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
    if bucket.contexts_sha256 not in ("", catalogue.recipe_sha256):
        raise RequestError(
            f"contexts_sha256 of bucket {bucket.name!r} is {bucket.contexts_sha256}, and {catalogue.recipe_sha256} of "
            "the catalogue's recipe"
        )
    item = catalogue.largest_item
    largest = {"constant": 1.0, "item": item, "user": user, "products": item * user, CODE: 1.0}  # a code is not longer
    for part in catalogue.recipe.parts:
        if bucket.dim and largest[part] > bucket.context_scale:
            raise RequestError(
                f"{part} features reach {largest[part]:g}, beyond ±{bucket.context_scale:g}, the context_scale of "
                f"bucket {bucket.name!r}"
            )
