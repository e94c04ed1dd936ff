"""How a context is made of an item's and a user's features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import numpy as np

from learner.arrays import Floats

PARTS = ("constant", "item", "user", "products")
CODE = "code"  # alone: what an encoder makes of the user's and the item's features


class RecipeError(ValueError):
    """A recipe that names other parts than there are."""


class Recipe:
    """A context from parts in a stated order: 1, the item's features, the user's, and all products of the two.

    Every part is linear in (1, item), so a user is a matrix M with context = M (1, item): θᵀx is (Mᵀθ)ᵀ(1, item), and
    no context has to be made to rank the items that are held.

    Examples
    --------
    >>> recipe = Recipe(["constant", "item", "user", "products"])
    >>> recipe.contexts(np.array([[1.0, 0.5, 0.2]]), np.array([0.1, -1.0]))  # of (1, item) with two features each
    array([[ 1.  ,  0.5 ,  0.2 ,  0.1 , -1.  ,  0.05, -0.5 ,  0.02, -0.2 ]])
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self.parts = tuple(parts)
        wrong = [part for part in self.parts if part not in PARTS and self.parts != (CODE,)]
        if wrong or not self.parts or len(set(self.parts)) < len(self.parts):
            raise RecipeError(
                f"a recipe names some of {', '.join(PARTS)}, each once, or {CODE} alone; got {list(self.parts)}"
            )

    @property
    def needs_user(self) -> bool:
        """Whether contexts depend on the user."""
        return bool({"user", "products", CODE} & set(self.parts))

    @property
    def coded(self) -> bool:
        """Whether an encoder makes the contexts."""
        return self.parts == (CODE,)

    def dim(self, item_columns: int, user_columns: int) -> int:
        """Return the length of a context."""
        lengths = {
            "constant": 1,
            "item": item_columns,
            "user": user_columns,
            "products": item_columns * user_columns,
        }
        return sum(lengths[part] for part in self.parts)

    def matrix(self, item_columns: int, user: Floats) -> Floats:
        """Return M (d, 1 + item columns) of one user: products stand item by item, the user's columns within."""
        constant = np.zeros((1, 1 + item_columns))
        constant[0, 0] = 1.0
        item = np.eye(item_columns, 1 + item_columns, k=1)
        blocks: dict[str, Floats] = {"constant": constant, "item": item}
        if "user" in self.parts:
            blocks["user"] = user[:, None] * constant
        if "products" in self.parts:
            blocks["products"] = np.kron(item, user[:, None]).astype(np.float64)
        return np.concatenate([blocks[part] for part in self.parts])

    def contexts(self, held: Floats, user: Floats) -> Floats:
        """Return the contexts (n, d) of rows (1, item) for one user."""
        return held @ self.matrix(held.shape[1] - 1, user).T

    def sha256(self, item_columns: int, user_columns: int) -> str:
        """Return the hash of what contexts are made of."""
        text = json.dumps([list(self.parts), item_columns, user_columns])
        return hashlib.sha256(text.encode()).hexdigest()
