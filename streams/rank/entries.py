"""What a catalogue is made of, line by line: its recipe, its items and its users, the newest of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from learner.encoder import Encoder
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.recipe import Recipe

LINES = (
    'each line is {"recipe": ["constant", "item"]} (the first), {"item": 7, "features": [0.5], "tags": {"kind": "hat"}}'
    ' or {"user": "u1", "features": [0.1]}'
)
RECIPE, ITEM, USER = "recipe", "item ", "user "  # the key of a line, but for the item or the user


class CatalogueEntries:
    """Lines of a catalogue as they come; a later one of the same item or user takes the place of an earlier one.

    Examples
    --------
    >>> entries = CatalogueEntries()
    >>> for line in ({"recipe": ["item"]}, {"item": 7, "features": [0.5]}, {"item": 9, "features": [0.2]}):
    ...     entries.add(line)
    >>> entries.remove("item 9")
    >>> entries.lines()
    {'recipe': '{"recipe": ["item"]}', 'item 7': '{"item": 7, "features": [0.5]}'}
    """

    def __init__(self) -> None:
        self.recipe: Recipe | None = None
        self.items: dict[int, tuple[list[float], dict[str, Any]]] = {}
        self.users: dict[str, list[float]] = {}

    def add(self, found: Any) -> None:
        """Take one line as JSON has it, or raise CatalogueError."""
        match found:
            case {"recipe": list(parts)} if len(found) == 1:
                self.recipe = Recipe(parts)
            case {"item": int(item), "features": list(features), **rest} if (
                type(item) is int
                and -(1 << 63) <= item < 1 << 63
                and rest.keys() <= {"tags"}
                and isinstance(tags := rest.get("tags", {}), dict)
            ):
                self.items[item] = features, tags
            case {"user": str(user), "features": list(features)} if len(found) == 2:
                self.users[user] = features
            case _:
                raise CatalogueError(f"this is nothing of a catalogue; {LINES}")

    def remove(self, key: str) -> None:
        """Forget the item or the user of a line's key; one that is not there may be forgotten, too."""
        if key.startswith(USER):
            self.users.pop(key.removeprefix(USER), None)
        elif key.startswith(ITEM) and key.removeprefix(ITEM).removeprefix("-").isdecimal():
            self.items.pop(int(key.removeprefix(ITEM)), None)

    def lines(self) -> dict[str, str]:
        """Return every line as JSON, by its key."""
        found = {} if self.recipe is None else {RECIPE: json.dumps({"recipe": list(self.recipe.parts)})}
        for item, (features, tags) in self.items.items():
            told = {"item": item, "features": features} | ({"tags": tags} if tags else {})
            found[f"{ITEM}{item}"] = json.dumps(told)
        for user, features in self.users.items():
            found[f"{USER}{user}"] = json.dumps({"user": user, "features": features})
        return found

    def catalogue(self, *, encoder: Encoder | None = None, recipe: Recipe | None = None) -> Catalogue:
        """Return all of it as a catalogue; ``recipe`` is used in place of its own."""
        if self.recipe is None:
            raise CatalogueError(f"no line says the recipe; {LINES}")
        names = {name for _, tags in self.items.values() for name in tags}
        return Catalogue(
            np.array(list(self.items), dtype=np.int64),
            [features for features, _ in self.items.values()],
            recipe or self.recipe,
            users=list(self.users),
            user_features=list(self.users.values()) or None,
            tags={name: [_values(tags.get(name, [])) for _, tags in self.items.values()] for name in sorted(names)},
            encoder=encoder,
        )


def key_of(found: Any) -> str:
    """Return the key of a line.

    >>> key_of({"item": 7, "features": [0.5]})
    'item 7'
    """
    if "item" in found:
        return f"{ITEM}{found['item']}"
    return f"{USER}{found['user']}" if "user" in found else RECIPE


def _values(found: object) -> list[str]:
    return [str(value) for value in (found if isinstance(found, list) else [found])]
