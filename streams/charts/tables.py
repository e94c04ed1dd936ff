"""A table of text for the terminal, for a page and for a Markdown file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rich.box import SIMPLE_HEAD
from rich.table import Table


def terminal_table(
    head: Sequence[str], lines: Iterable[Sequence[str]], *, title: str | None = None, caption: str | None = None
) -> Table:
    """Return a table whose first column is names and whose others are numbers."""
    table = Table(title=title, title_justify="left", caption=caption, box=SIMPLE_HEAD, padding=0, show_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def html_table(head: Sequence[str], lines: Iterable[Sequence[str]], *, colours: Sequence[str] = ()) -> str:
    """Return a table; with colours, a spot of its own before the first cell of each line.

    >>> html_table(["K"], [["<3"]])
    '<section><table><tr><th>K</th></tr><tr><td>&lt;3</td></tr></table></section>'
    """
    spots = [f'<i style="background:{colour}"></i>' for colour in colours]
    rows = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
    for number, line in enumerate(lines):
        first, *rest = (f"{escape(cell)}</td>" for cell in line)
        cells = [f"{spots[number] if spots else ''}{first}", *rest]
        rows.append(f"<tr>{''.join(f'<td>{cell}' for cell in cells)}</tr>")
    return f"<section><table>{''.join(rows)}</table></section>"


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return the same for a Markdown file.

    >>> print(markdown_table(["K", "lift"], [["3", "+1%"]]))
    | K | lift |
    | --- | --- |
    | 3 | +1% |
    """
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))
