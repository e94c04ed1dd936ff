"""Coloured cells in rows and columns, each with its text, as an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from streams.charts.page import picture

HEAD = 44  # pixels above the cells


class Cell(NamedTuple):
    """A coloured rectangle; ``hint`` is shown under the mouse."""

    text: str
    fill: str
    ink: str = "var(--ink, #222)"
    hint: str = ""


def grid(
    rows: Mapping[str, Sequence[Cell]],
    columns: Sequence[str],
    *,
    wide: int,
    tall: int,
    left: int,
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """Return cells; ``left`` pixels for the names of rows; ``marks`` lie at a row and a column, or between two."""
    parts = []
    for column, name in enumerate(columns):
        centre = left + wide * (column + 0.5)
        parts.append(f'<text x="{centre}" y="{HEAD * 0.6}" text-anchor="middle">{escape(name)}</text>')
    baseline = tall / 2 - 8 if marks else tall / 2 + 4  # above the marks
    for row, (name, cells) in enumerate(rows.items()):
        top = HEAD + tall * row
        parts.append(f'<text x="{left - 8}" y="{top + tall / 2 + 4}" text-anchor="end">{escape(name)}</text>')
        for column, cell in enumerate(cells):
            start = left + wide * column
            parts.append(
                f'<g fill="{cell.ink}">{cell.hint and f"<title>{escape(cell.hint)}</title>"}'
                f'<rect x="{start}" y="{top}" width="{wide - 2}" height="{tall - 2}" fill="{cell.fill}"/>'
                f'<text x="{start + wide / 2 - 1}" y="{top + baseline}" text-anchor="middle">{escape(cell.text)}</text>'
                "</g>"
            )
    for name, (row_at, column_at) in (marks or {}).items():
        x, y = left + wide * (column_at + 0.5), HEAD + tall * (row_at + 0.5) + 12
        parts.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3.5"/><text x="{x + 6:.0f}" y="{y + 5:.0f}">{name}</text>')
    return picture(left + wide * len(columns), HEAD + tall * len(rows), parts)
