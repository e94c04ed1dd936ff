"""A catalogue's file: JSON lines, or arrays in an npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from learner.encoder import Encoder, EncoderError
from schemas.json_text import json_lines
from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.recipe import Recipe, RecipeError

LINES = (
    'each line is {"recipe": ["constant", "item"]} (the first), {"item": 7, "features": [0.5], "tags": {"kind": "hat"}}'
    ' or {"user": "u1", "features": [0.1]}'
)
TAG = "tag:"  # before the name, in an npz


def read_catalogue(file: Path, *, encoder: Encoder | None = None, recipe: Recipe | None = None) -> Catalogue:
    """Return the catalogue of a file: of arrays when its name ends in .npz, else of JSON lines.

    ``recipe`` is used in place of the file's own.
    """
    try:
        if file.suffix == ".npz":
            return _of_arrays(file, encoder, recipe)
        with file.open(encoding="utf-8") as lines:
            return catalogue_of(lines, encoder=encoder, recipe=recipe)
    except OSError as error:
        raise CatalogueError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecipeError, zipfile.BadZipFile, EOFError) as error:
        raise CatalogueError(f"{file}: {error}") from error


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
    said = None
    items: dict[int, tuple[list[float], dict[str, Any]]] = {}
    users: dict[str, list[float]] = {}
    for number, found in json_lines(lines):
        match found:
            case {"recipe": list(parts)} if len(found) == 1:
                said = Recipe(parts)
            case {"item": int(item), "features": list(features), **rest} if (
                type(item) is int
                and -(1 << 63) <= item < 1 << 63
                and rest.keys() <= {"tags"}
                and isinstance(tags := rest.get("tags", {}), dict)
            ):
                items[item] = features, tags
            case {"user": str(user), "features": list(features)} if len(found) == 2:
                users[user] = features
            case _:
                raise CatalogueError(f"line {number} is nothing of a catalogue; {LINES}")
    if said is None:
        raise CatalogueError(f"no line says the recipe; {LINES}")
    names = {name for _, tags in items.values() for name in tags}
    return Catalogue(
        np.array(list(items), dtype=np.int64),
        [features for features, _ in items.values()],
        recipe or said,
        users=list(users),
        user_features=list(users.values()) or None,
        tags={name: [_values(tags.get(name, [])) for _, tags in items.values()] for name in sorted(names)},
        encoder=encoder,
    )


def _values(found: object) -> list[str]:
    return [str(value) for value in (found if isinstance(found, list) else [found])]


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
