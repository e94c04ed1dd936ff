"""A catalogue's file: JSON lines, or arrays in an npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from learner.encoder import Encoder, EncoderError
from schemas.json_text import json_lines
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.entries import CatalogueEntries
from streams.rank.recipe import Recipe, RecipeError

TAG = "tag:"  # before the name, in an npz
PLAIN = Recipe(["item"])  # for who wants no contexts


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
    try:
        return Encoder.from_bytes(file.read_bytes())
    except OSError as error:
        raise CatalogueError(f"{file} cannot be read: {error.strerror or error}") from error
    except EncoderError as error:
        raise CatalogueError(f"{file}: {error}") from error


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
            found = _of_lines(lines)
        found.catalogue(recipe=PLAIN)
        return found


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        yield
    except OSError as error:
        raise CatalogueError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecipeError, zipfile.BadZipFile, EOFError) as error:
        raise CatalogueError(f"{file}: {error}") from error


def _of_lines(lines: Iterable[str]) -> CatalogueEntries:
    entries = CatalogueEntries()
    for number, found in json_lines(lines):
        try:
            entries.add(found)
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
