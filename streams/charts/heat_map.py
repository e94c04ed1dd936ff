"""An examination table as a heat map, for the terminal or as an SVG file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from streams.charts.page import picture

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
    rows = cells_of(examination, observations)
    parts = [
        f'<text x="{CELL * (column + 1.5)}" y="{CELL * 0.6}" text-anchor="middle">{name}</text>'
        for column, name in enumerate(names)
    ]
    for k, cells in enumerate(rows):
        top = CELL * (k + 1)
        parts.append(f'<text x="{CELL * 0.5}" y="{top + CELL * 0.6}" text-anchor="middle">k = {k + 1}</text>')
        for column, (value, count) in enumerate(cells):
            left = CELL * (column + 1)
            fill, ink = colours(value)
            hint = f"k = {k + 1}, {names[column]}: {value:.4f} from {count} rows"
            parts.append(
                f'<g fill="{ink}"><title>{hint}</title>'
                f'<rect x="{left}" y="{top}" width="{CELL - 2}" height="{CELL - 2}" fill="{fill}"/>'
                f'<text x="{left + CELL / 2 - 1}" y="{top + CELL * 0.58}" text-anchor="middle">'
                f"{value:.2f}{'' if count else '·'}</text></g>"
            )
    return picture(CELL * (len(names) + 1), CELL * (len(rows) + 1), parts) + "\n"


def column_names(examination: NDArray[np.float64]) -> list[str]:
    """Return what the columns are called: last clicks, or one for a model that does not look at them."""
    return ["any k′"] if examination.ndim == 1 else [f"k′ = {last}" for last in range(examination.shape[1])]


def cells_of(examination: NDArray[np.float64], observations: NDArray[np.int64]) -> list[list[tuple[float, int]]]:
    """Return the chance and the rows behind it, row by row, without the cells k′ ≥ k."""
    if examination.ndim == 1:
        return [[(float(value), int(count))] for value, count in zip(examination, observations, strict=True)]
    return [
        [(float(examination[k, last]), int(observations[k, last])) for last in range(k + 1)]
        for k in range(len(examination))
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
