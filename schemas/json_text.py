"""JSON that others wrote."""

import json
from collections.abc import Iterable, Iterator
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text holds, or raise ValueError, also for what Python's parser has no room for.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_lines(lines: Iterable[str], name: str = "line") -> Iterator[tuple[int, Any]]:
    """Yield what each line holds, with its number; blank ones are passed over, any other that is not JSON is named."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, parse_json(line)
    except UnicodeDecodeError as error:  # raised by the file, between two lines
        raise ValueError(f"{name} {number + 1} or one soon after is not UTF-8: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name} {number} is not JSON: {error}") from error
