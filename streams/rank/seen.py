"""Held items as one user meets them: their contexts, and the best of them, by a linear recipe or by an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from learner.bandits import LinearRanking
from learner.encoder import Encoder, Half

if TYPE_CHECKING:
    from streams.rank.catalogue import Catalogue

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class SeenItems(Protocol):
    """What ranking needs of the items that are held, for one user; rows are the catalogue's, None is all of them."""

    def contexts(self, rows: Rows | None) -> Floats:
        """Return the contexts of rows."""

    def best(self, model: LinearRanking, rows: Rows | None, *, size: int, explore: float) -> Rows:
        """Return the best of ``rows``, as places among them."""


class MappedItems:
    """Contexts x = M (1, item), which are ranked without being made."""

    def __init__(self, catalogue: Catalogue, user: Floats) -> None:
        self._held, self._norms = catalogue.held, catalogue.norms
        self._mapping = catalogue.recipe.matrix(catalogue.item_columns, user)

    def contexts(self, rows: Rows | None) -> Floats:
        """Return the contexts of rows."""
        held = self._held if rows is None else self._held[rows]
        return np.asarray(held @ self._mapping.T)

    def best(self, model: LinearRanking, rows: Rows | None, *, size: int, explore: float) -> Rows:
        """Return the best of ``rows``, as places among them."""
        held, norms = (self._held, self._norms) if rows is None else (self._held[rows], self._norms[rows])
        return model.rank_mapped(held, self._mapping, norms=norms, size=size, explore=explore)


class CodedItems:
    """Codes of an encoder, whose items' half was computed when the catalogue was read."""

    def __init__(self, encoder: Encoder, items: Half, user: Floats) -> None:
        self._encoder, self._items = encoder, items
        self._user = encoder.user_half(user[None])

    def contexts(self, rows: Rows | None) -> Floats:
        """Return the codes of rows."""
        items = self._items if rows is None else Half(self._items.values[rows], 0, 0)
        return self._encoder.join(self._user, items).values.astype(np.float64)

    def best(self, model: LinearRanking, rows: Rows | None, *, size: int, explore: float) -> Rows:
        """Return the best of ``rows``, as places among them."""
        return model.rank(self.contexts(rows), size, explore=explore)
