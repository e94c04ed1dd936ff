"""An experiment's report: the same texts, tables and figures as one HTML page and as a Markdown file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from rich.console import Console

from streams.charts import html_table, markdown_table, page

Grid = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A table: its head and its lines."""

Figure = tuple[str, str, str]
"""A picture: the name of its file, its title and the SVG."""


class Report:
    """Collects what a report shows, from top to bottom; figures are also written as SVG files."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._html = [f"<h1>{escape(title)}</h1>"]
        self._markdown: list[str] = []
        self._files: dict[str, str] = {}

    def heading(self, words: str) -> None:
        """Begin a section."""
        self._html.append(f"<h2>{escape(words)}</h2>")
        self._markdown.append(f"### {words}")

    def text(self, words: str) -> None:
        """Add a paragraph."""
        self._html.append(f"<p>{escape(words)}</p>")
        self._markdown.append(words)

    def table(self, grid: Grid, title: str = "") -> None:
        """Add a table; one without lines is left out."""
        head, lines = grid
        if not lines:
            return
        if title:
            self._html.append(f"<h3>{escape(title)}</h3>")
            self._markdown.append(f"**{title}**")
        self._html.append(html_table(head, lines))
        self._markdown.append(markdown_table(head, lines))

    def figures(self, *figures: Figure) -> None:
        """Add figures, side by side if there is room."""
        drawn = "\n".join(f"<section><h3>{escape(title)}</h3>{svg}</section>" for _, title, svg in figures)
        self._html.append(f'<div class="pair">{drawn}</div>')
        self._files |= {f"{name}.svg": svg for name, _, svg in figures}

    def write(self, out: Path, results: object, more: Mapping[str, str] | None = None) -> None:
        """Write everything and ``more`` files into ``out``, ``results`` as JSON, and print the names of the files."""
        files = {**self._files, **(more or {})} | {
            "results.json": json.dumps(results, indent=1) + "\n",
            "table.md": "\n\n".join(self._markdown) + "\n",
            "report.html": page(self._title, "\n".join(self._html)),
        }
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_text(content, encoding="utf-8")
        Console().print(f"written to {out}: {', '.join(sorted(files))}", highlight=False)
