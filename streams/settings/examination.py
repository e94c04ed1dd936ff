"""A checked examination table in a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.browsing import checked_positions, checked_table, table_hash
from schemas.json_text import parse_json

KEYS = ("positions", "examination", "observations", "factor", "scale", "sha256")
SCALE = "the largest well-observed cell is 1: clicks tell w only up to a factor, which was taken out"


class ExaminationError(ValueError):
    """A file that holds no usable examination table."""


def read_examination(file: Path) -> NDArray[np.float64]:
    """Return the table w in ``file``: K×K, or K chances for a position-based model; its hash is checked."""
    try:
        found = parse_json(file.read_text())
    except (OSError, ValueError) as error:
        raise ExaminationError(f"cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or "examination" not in found or not found.keys() <= set(KEYS):
        raise ExaminationError(f"must be a JSON object with the keys {', '.join(KEYS)}; make one: glimpse fit")
    try:
        table = checked(found["examination"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ExaminationError(str(error)) from error
    if found.get("positions", len(table)) != len(table):
        raise ExaminationError(f"says positions = {found['positions']} and holds a table of {len(table)}")
    if "sha256" in found and found["sha256"] != table_hash(table):
        raise ExaminationError(
            f"was changed after it was written: sha256 = {found['sha256']}, its table has {table_hash(table)}"
        )
    return table


def write_examination(
    file: Path, examination: ArrayLike, observations: ArrayLike | None = None, *, factor: float | None = None
) -> str:
    """Write a table with its hash, and return the hash; ``factor`` is what a fitted one was divided by."""
    table = checked(examination)
    content: dict[str, object] = {"positions": len(table), "examination": table.tolist()}
    if observations is not None:
        content["observations"] = np.asarray(observations).tolist()
    if factor is not None:
        content |= {"factor": factor, "scale": SCALE}
    content["sha256"] = table_hash(table)
    file.write_text(json.dumps(content) + "\n")
    return table_hash(table)


def checked(examination: ArrayLike) -> NDArray[np.float64]:
    """Return the table as floats: K×K by position and last click, or K by position."""
    table = np.array(examination, dtype=np.float64)
    return checked_positions(table) if table.ndim == 1 else checked_table(table)
