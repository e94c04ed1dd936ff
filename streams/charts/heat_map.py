"""An examination table as a heat map, for the terminal or as an SVG file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from streams.charts.grid import Cell, grid

COLD, HOT = np.array([247, 251, 255]), np.array([8, 69, 148])  # colours of 0 and 1
CELL = 44  # pixels


def terminal_map(examination: NDArray[np.float64], observations: NDArray[np.int64]) -> Table:
    """Return a coloured table in percent: a row for each k, a column for each k′; · was never observed."""
    title = "chance in % that position k is examined, by the last click k′ above it (0: none)"
    table = Table(title=title, box=None, padding=0, title_justify="left")
    table.add_column("k ", justify="right")
    for name in column_names(examination):
        table.add_column(name.removeprefix("k′ = ") + " ", justify="right", no_wrap=True, min_width=5)
    for k, cells in enumerate(cells_of(examination, observations)):
        table.add_row(f"{k + 1} ", *(_painted(value, count) for value, count in cells))
    return table


def svg_map(examination: NDArray[np.float64], observations: NDArray[np.int64]) -> str:
    """Return the same as a picture that every browser shows."""
    names = column_names(examination)
    rows = {}
    for k, chances in enumerate(cells_of(examination, observations)):
        rows[f"k = {k + 1}"] = [
            Cell(f"{w:.2f}{'' if count else '·'}", *colours(w), f"k = {k + 1}, {name}: {w:.4f} from {count} rows")
            for (w, count), name in zip(chances, names, strict=False)
        ]
    return grid(rows, names, wide=CELL, tall=CELL, left=CELL + 8) + "\n"


def column_names(examination: NDArray[np.float64]) -> list[str]:
    """Return what the columns are called: last clicks, or one for a model that does not look at them."""
    return ["any k′"] if examination.ndim == 1 else [f"k′ = {last}" for last in range(examination.shape[1])]


def cells_of(examination: NDArray[np.float64], observations: NDArray[np.int64]) -> list[list[tuple[float, int]]]:
    """Return the chance and the rows behind it, row by row, without the cells k′ ≥ k."""
    pairs = zip(np.atleast_2d(examination.T).T, np.atleast_2d(observations.T).T, strict=True)
    return [
        list(zip(chances[: k + 1].tolist(), counts[: k + 1].tolist(), strict=True))
        for k, (chances, counts) in enumerate(pairs)
    ]


def colours(value: float) -> tuple[str, str]:
    """Return the background of a chance, and a colour that can be read on it.

    >>> colours(1.0)
    ('#084594', '#ffffff')
    """
    red, green, blue = (int(each) for each in np.rint(COLD + value * (HOT - COLD)))
    return f"#{red:02x}{green:02x}{blue:02x}", "#ffffff" if value > 0.5 else "#000000"


def _painted(value: float, count: int) -> Text:
    fill, ink = colours(value)
    return Text(f"{100 * value:4.0f}{' ' if count else '·'}", style=f"{ink} on {fill}")
