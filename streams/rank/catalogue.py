"""The items that could be shown, with features and tags, what is known of users, and the items as a user meets them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from learner.arrays import Floats, Ints
from learner.bandits import Ranking
from learner.encoder import Encoder, Half
from learner.samples import NO_ITEM
from streams.rank.recipe import CODE, Recipe


class CatalogueError(ValueError):
    """A catalogue that cannot be used."""


class NotHeld(LookupError):
    """An item or a tag that the catalogue does not have."""


class Catalogue:
    """Items with features as one contiguous matrix, by id. It never changes: another one replaces it as a whole.

    Parameters
    ----------
    items
        Ids (n,), each once.
    features
        Of each item, (n, p).
    recipe
        How a context is made of these and a user's.
    users, user_features
        Ids and features (m, q) of the users that are known.
    tags
        By name, the values of each item, to choose candidates by.
    encoder
        What makes contexts by the recipe ``code``, of the user's features and then the item's.

    Examples
    --------
    >>> shop = Catalogue([7, 9], [[0.5], [0.2]], Recipe(["item"]), tags={"kind": [["shoe"], ["hat", "new"]]})
    >>> shop.items[shop.rows(tags={"kind": ["hat", "shoe"]}, without=[7])]
    array([9])
    """

    def __init__(
        self,
        items: ArrayLike,
        features: ArrayLike,
        recipe: Recipe,
        *,
        users: Sequence[str] = (),
        user_features: ArrayLike | None = None,
        tags: Mapping[str, Sequence[Sequence[str]]] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        ids = np.asarray(items)
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise CatalogueError(f"items must be one row of whole numbers, got {ids.dtype} of shape {ids.shape}")
        order = np.argsort(ids, kind="stable")  # so that its version and its ties do not depend on a file's order
        self.items: Ints = ids[order].astype(np.int64)
        self.recipe = recipe
        item_part = _matrix("features", features, len(ids))[order]
        user_part = _matrix("user_features", np.empty((0, 0)) if user_features is None else user_features, len(users))
        self.held = np.hstack([np.ones((len(ids), 1)), item_part])  # (1, item), what a user's matrix is applied to
        self.norms: Floats = np.sqrt(np.vecdot(self.held, self.held))
        self.item_columns, self.user_columns = item_part.shape[1], user_part.shape[1]
        self._coded = None if not recipe.coded else self._encoded(encoder, item_part)
        self.dim = recipe.dim(self.item_columns, self.user_columns) if self._coded is None else self._coded[0].code
        self.recipe_sha256 = recipe.sha256(self.item_columns, self.user_columns)
        if self._coded is not None:
            self.recipe_sha256 = self._coded[0].sha256()
        self.largest_item = float(np.abs(item_part).max(initial=0.0))
        self.largest_user = float(np.abs(user_part).max(initial=0.0))
        self._users, self._user_part = {user: row for row, user in enumerate(users)}, user_part
        if self.items[0] == NO_ITEM:
            raise CatalogueError(f"item {NO_ITEM} stands for no item; take another id")
        if np.any(twice := np.diff(self.items) == 0):
            raise CatalogueError(f"item {self.items[1:][twice][0]} is there twice")
        self._tagged = {name: _by_value(name, values, order) for name, values in (tags or {}).items()}
        self.version = self._hash()

    def _hash(self) -> str:
        digest = hashlib.sha256(self.recipe_sha256.encode())
        users = sorted(self._users)
        for array in (self.items, self.held, self._user_part[[self._users[user] for user in users]]):
            digest.update(array.tobytes())
        digest.update(repr(users).encode())
        for name, values in sorted(self._tagged.items()):
            digest.update(repr((name, [(value, rows.tolist()) for value, rows in sorted(values.items())])).encode())
        return digest.hexdigest()[:12]

    @property
    def users(self) -> int:
        """How many users are known."""
        return len(self._users)

    @property
    def user_ids(self) -> list[str]:
        """The users that are known."""
        return list(self._users)

    @property
    def tags(self) -> dict[str, int]:
        """How many values there are under each name."""
        return {name: len(values) for name, values in self._tagged.items()}

    def _encoded(self, encoder: Encoder | None, item_part: Floats) -> tuple[Encoder, Half]:
        if encoder is None:
            raise CatalogueError(f"the recipe {CODE!r} needs an encoder: --encoder FILE, made by glimpse encoder train")
        wanted = (encoder.user_columns, encoder.columns - encoder.user_columns)
        if (self.user_columns, self.item_columns) != wanted:
            raise CatalogueError(
                f"the encoder takes {wanted[0]} features of a user and {wanted[1]} of an item; there are "
                f"{self.user_columns} and {self.item_columns}"
            )
        return encoder, encoder.item_half(item_part)

    def seen_by(self, user: Floats | None) -> MappedItems | CodedItems:
        """Return the items as a user with these features meets them; None is a stranger.

        A stranger's features are 0, or to an encoder the median of those it was trained with.
        """
        if self._coded is not None:
            return CodedItems(*self._coded, np.full(self.user_columns, np.nan) if user is None else user)
        return MappedItems(self, np.zeros(self.user_columns) if user is None else user)

    def user(self, user_id: str) -> Floats | None:
        """Return a user's features, or None for one who is not known."""
        row = self._users.get(user_id)
        return None if row is None else self._user_part[row]

    def rows_of(self, items: ArrayLike) -> Ints:
        """Return the rows of items by their ids, or raise NotHeld."""
        ids = np.asarray(items, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.items, ids), len(self.items) - 1)
        if np.any(missing := self.items[rows] != ids):
            raise NotHeld(f"the catalogue has no item {ids[missing][0]}")
        return rows

    def rows(self, *, tags: Mapping[str, Iterable[str]], without: Sequence[int]) -> Ints:
        """Return the rows of items that have one of the values under each name, but for those named."""
        chosen = np.arange(len(self.items))
        if tags:
            chosen = reduce(np.intersect1d, [self._with(name, values) for name, values in tags.items()])
        return chosen[~np.isin(self.items[chosen], list(without))] if without else chosen

    def _with(self, name: str, values: Iterable[str]) -> Ints:
        if name not in self._tagged:
            raise NotHeld(f"the catalogue has no tag {name!r}; it has {', '.join(sorted(self._tagged)) or 'none'}")
        row_sets = [rows for value in values if (rows := self._tagged[name].get(value)) is not None]
        return np.unique(np.concatenate(row_sets)) if row_sets else np.empty(0, np.int64)


def _matrix(name: str, values: ArrayLike, rows: int) -> Floats:
    try:
        if isinstance(values, list):  # in pieces: numpy keeps other threads, which rank, waiting for each
            pieces = [np.asarray(values[row : row + 1000], dtype=np.float32) for row in range(0, len(values), 1000)]
            values = np.concatenate(pieces) if pieces else values
        matrix = np.asarray(values, dtype=np.float32).astype(np.float64)  # as the log will have them
    except (TypeError, ValueError, OverflowError) as error:
        raise CatalogueError(f"{name} must be as many numbers for each: {error}") from error
    if matrix.ndim != 2 or len(matrix) != rows:
        raise CatalogueError(f"{name} must be one row for each of {rows}, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise CatalogueError(f"{name} must be finite, row {int(np.argwhere(~np.isfinite(matrix))[0, 0])} is not")
    return matrix


def _by_value(name: str, values: Sequence[Sequence[str]], order: Ints) -> dict[str, Ints]:
    if len(values) != len(order):
        raise CatalogueError(f"tag {name!r} must have values for each of {len(order)} items, got {len(values)}")
    rows_of: dict[str, list[int]] = {}
    for row, index in enumerate(order.tolist()):
        for value in values[index]:
            rows_of.setdefault(value, []).append(row)
    return {value: np.array(rows, dtype=np.int64) for value, rows in rows_of.items()}


class MappedItems:
    """Contexts x = M (1, item), which are ranked without being made."""

    def __init__(self, catalogue: Catalogue, user: Floats) -> None:
        self._held, self._norms = catalogue.held, catalogue.norms
        self._mapping = catalogue.recipe.matrix(catalogue.item_columns, user)

    def contexts(self, rows: Ints | None) -> Floats:
        """Return the contexts of rows."""
        held = self._held if rows is None else self._held[rows]
        return np.asarray(held @ self._mapping.T)

    def best(self, model: Ranking, rows: Ints | None, *, size: int, explore: float) -> Ints:
        """Return the best of ``rows``, as places among them."""
        held, norms = (self._held, self._norms) if rows is None else (self._held[rows], self._norms[rows])
        return model.rank_mapped(held, self._mapping, norms=norms, size=size, explore=explore)


class CodedItems:
    """Codes of an encoder, whose items' half was computed when the catalogue was read."""

    def __init__(self, encoder: Encoder, items: Half, user: Floats) -> None:
        self._encoder, self._items = encoder, items
        self._user = encoder.user_half(user[None])

    def contexts(self, rows: Ints | None) -> Floats:
        """Return the codes of rows."""
        items = self._items if rows is None else Half(self._items.values[rows], 0, 0)
        return self._encoder.join(self._user, items).values.astype(np.float64)

    def best(self, model: Ranking, rows: Ints | None, *, size: int, explore: float) -> Ints:
        """Return the best of ``rows``, as places among them."""
        return model.rank(self.contexts(rows), size, explore=explore)
