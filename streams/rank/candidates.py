"""Candidates to rank, read from JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.json_text import json_lines


class CandidateError(ValueError):
    """A line that is no candidate."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Items that could be shown, with their contexts (n, d); d is 0 for a context-free bucket."""

    items: NDArray[np.int64]
    contexts: NDArray[np.float64]


def read_candidates(lines: Iterable[str]) -> Candidates:
    """Return the candidates of JSON lines.

    >>> read_candidates(['{"item": 7, "context": [0.5, 0.1]}', '{"item": 9, "context": [0.2, 0.3]}']).items
    array([7, 9])
    """
    items: list[int] = []
    contexts: list[list[float]] = []
    for number, found in _found(lines):
        item = found.get("item") if isinstance(found, dict) else None
        context = found.get("context", []) if isinstance(found, dict) else None
        if type(item) is not int or not isinstance(context, list) or not -(2**63) <= item < 2**63:
            raise CandidateError(f'line {number} must be {{"item": whole number, "context": [numbers]}}')
        if contexts and len(context) != len(contexts[0]):
            raise CandidateError(f"line {number} has {len(context)} numbers, the first line has {len(contexts[0])}")
        items.append(item)
        contexts.append(context)
    if not items:
        raise CandidateError('no candidates; each line is {"item": 7, "context": [0.5, 0.1]}')
    try:
        rows = np.array(contexts, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise CandidateError(f"contexts must be numbers: {error}") from error
    return Candidates(np.array(items, dtype=np.int64), rows)


def _found(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    try:
        yield from json_lines(lines)
    except ValueError as error:
        raise CandidateError(str(error)) from error
