"""One HTML page in light and dark, the frame of its pictures, and tables: for a page, the terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rich.box import SIMPLE_HEAD
from rich.table import Table

COLOURS = ("#8a8f98", "#b07aa1", "#e0883a", "#c9a400", "#3f8fd2", "#1a9850", "#d1495b", "#6b4c9a")
STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --soft: #5d6570; --line: #d9dde3; --back: #fff; --card: #f7f8fa }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa3ae; --line: #343a42; --back: #14171b; --card: #1b1f24 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1080px; padding: 2rem 1rem 4rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; margin: 0 0 .25rem } h2 { font-size: 1.05rem; margin: 0 0 .5rem }
p { color: var(--soft); margin: .25rem 0 1rem; max-width: 75ch } .alarm { color: #d1242f; font-weight: 600 }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; margin: 1rem 0;
  overflow-x: auto }
.pair { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)) }
.pair section { margin: 0 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 500 }
i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .5em } li { margin: .3rem 0 }
img, svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif }
"""


def page(title: str, body: str) -> str:
    """Return a page around what it shows."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    """Return an SVG picture of its parts, for a page or for a file of its own."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="var(--ink, #222)">{"".join(parts)}</svg>'
    )


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
    rows = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
    for number, line in enumerate(lines):
        spot = f'<i style="background:{colours[number]}"></i>' if colours else ""
        rows.append(f"<tr><td>{spot}{'<td>'.join(f'{escape(cell)}</td>' for cell in line)}</tr>")
    return f"<section><table>{''.join(rows)}</table></section>"


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return the same for a Markdown file.

    >>> print(markdown_table(["K", "lift"], [["3", "+1%"]]))
    | K | lift |
    | --- | --- |
    | 3 | +1% |
    """
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))
