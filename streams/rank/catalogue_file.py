"""A catalogue from lines: its recipe, its items and its users; and from its file, JSON lines or arrays in an npz."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from learner.encoder import Encoder
from schemas.json_text import json_lines
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.recipe import Recipe

TAG = "tag:"  # before the name, in an npz
PLAIN = Recipe(["item"])  # for who wants no contexts
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

    def add(self, line: Any) -> None:
        """Take one line as JSON has it, or raise CatalogueError."""
        match line:
            case {"recipe": list(parts)} if len(line) == 1:
                self.recipe = Recipe(parts)
            case {"item": int(item), "features": list(features), **rest} if (
                type(item) is int
                and -(1 << 63) <= item < 1 << 63
                and rest.keys() <= {"tags"}
                and isinstance(tags := rest.get("tags", {}), dict)
            ):
                self.items[item] = features, tags
            case {"user": str(user), "features": list(features)} if len(line) == 2:
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
        lines = {} if self.recipe is None else {RECIPE: json.dumps({"recipe": list(self.recipe.parts)})}
        for item, (features, tags) in self.items.items():
            told = {"item": item, "features": features} | ({"tags": tags} if tags else {})
            lines[f"{ITEM}{item}"] = json.dumps(told)
        for user, features in self.users.items():
            lines[f"{USER}{user}"] = json.dumps({"user": user, "features": features})
        return lines

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


def key_of(line: Any) -> str:
    """Return the key of a line.

    >>> key_of({"item": 7, "features": [0.5]})
    'item 7'
    """
    if "item" in line:
        return f"{ITEM}{line['item']}"
    return f"{USER}{line['user']}" if "user" in line else RECIPE


def _values(tag: object) -> list[str]:
    return [str(value) for value in (tag if isinstance(tag, list) else [tag])]


def read_catalogue(file: Path, *, encoder: Encoder | None = None, recipe: Recipe | None = None) -> Catalogue:
    """Return the catalogue of a file: of arrays when its name ends in .npz, else of JSON lines.

    ``recipe`` is used in place of the file's own.
    """
    with _named(file):
        if file.suffix == ".npz":
            return _of_arrays(file, encoder, recipe)
        with file.open(encoding="utf-8") as lines:
            return catalogue_of(lines, encoder=encoder, recipe=recipe)


def read_encoder(file: Path) -> Encoder:
    """Return the encoder of a file."""
    with _named(file):
        return Encoder.from_bytes(file.read_bytes())


def catalogue_of(lines: Iterable[str], *, encoder: Encoder | None = None, recipe: Recipe | None = None) -> Catalogue:
    """Return the catalogue of JSON lines; of an item or a user that comes twice the last one counts.

    >>> catalogue_of(['{"recipe": ["item"]}', '{"item": 7, "features": [0.5]}']).held
    array([[1. , 0.5]])
    """
    return _of_lines(lines).catalogue(encoder=encoder, recipe=recipe)


def read_entries(file: Path) -> CatalogueEntries:
    """Return the lines that a file holds, or that a file of arrays could hold, if they make a catalogue."""
    with _named(file):
        if file.suffix == ".npz":
            _of_arrays(file, None, PLAIN)
            return _entries_of_arrays(file)
        with file.open(encoding="utf-8") as lines:
            entries = _of_lines(lines)
        entries.catalogue(recipe=PLAIN)
        return entries


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        yield
    except OSError as error:
        raise CatalogueError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise CatalogueError(f"{file}: {error}") from error


def _of_lines(lines: Iterable[str]) -> CatalogueEntries:
    entries = CatalogueEntries()
    for number, entry in json_lines(lines):
        try:
            entries.add(entry)
        except CatalogueError as error:
            raise CatalogueError(f"line {number}: {error}") from error
    return entries


def _entries_of_arrays(file: Path) -> CatalogueEntries:
    entries = CatalogueEntries()
    with np.load(file, allow_pickle=False) as arrays:
        there = {name: arrays[name].tolist() for name in arrays}
    entries.recipe = Recipe(there["recipe"])
    tags = {name.removeprefix(TAG): values for name, values in there.items() if name.startswith(TAG)}
    for row, (item, features) in enumerate(zip(there["items"], there["features"], strict=True)):
        entries.items[item] = features, {name: [str(values[row])] for name, values in tags.items()}
    entries.users = dict(zip(there.get("users", []), there.get("user_features", []), strict=True))
    return entries


def _of_arrays(file: Path, encoder: Encoder | None, recipe: Recipe | None) -> Catalogue:
    with np.load(file, allow_pickle=False) as arrays:
        missing = {"items", "features", "recipe"} - set(arrays)
        if missing:
            raise CatalogueError(f"without {', '.join(sorted(missing))}; it has {', '.join(sorted(arrays))}")
        return Catalogue(
            arrays["items"],
            arrays["features"],
            recipe or Recipe(arrays["recipe"].tolist()),
            users=arrays["users"].tolist() if "users" in arrays else (),
            user_features=arrays.get("user_features"),
            tags={
                name.removeprefix(TAG): [[str(value)] for value in arrays[name].tolist()]
                for name in sorted(arrays)
                if name.startswith(TAG)
            },
            encoder=encoder,
        )
