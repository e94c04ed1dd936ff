"""Advice for the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.advise.advice import Advice, lines_of


def advice_view(advice: Advice) -> RenderableType:
    """Return the findings with their commands, and what each wait would mean."""
    parts: list[RenderableType] = []
    for line in lines_of(advice):
        parts.append(Text(f"{'→' if line.act else '✓'} {line.text}", style="bold" if line.act else ""))
        if line.command:
            parts.append(Text(f"  {line.command}", style="cyan"))
    if advice.delays is not None:
        table = Table(
            title=f"each wait_s, with lateness_s = {advice.lateness_s:g}", title_justify="left", box=SIMPLE_HEAD
        )
        for heading in ("wait_s = added staleness", "clicks that correct", "clicks lost"):
            table.add_column(heading, justify="right")
        for row in advice.delays.rows:
            table.add_row(f"{row.wait_s:g} s", f"{row.corrected:.2%}", f"{row.lost:.2%}")
        parts.append(table)
    return Group(*parts, *(Text(text, style="dim") for text in advice.notes))
