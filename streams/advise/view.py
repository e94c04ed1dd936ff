"""Advice for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from streams.advise.advice import Advice, lines_of
from streams.charts import terminal_table


def advice_view(advice: Advice) -> RenderableType:
    """Return the findings with their commands, and what each wait would mean."""
    parts: list[RenderableType] = []
    for line in lines_of(advice):
        parts.append(Text(f"{'→' if line.act else '✓'} {line.text}", style="bold" if line.act else ""))
        if line.command:
            parts.append(Text(f"  {line.command}", style="cyan"))
    if advice.delays is not None:
        rows = [[f"{row.wait_s:g} s", f"{row.corrected:.2%}", f"{row.lost:.2%}"] for row in advice.delays.rows]
        head = ("wait_s = added staleness", "clicks that correct", "clicks lost")
        parts.append(terminal_table(head, rows, title=f"each wait_s, with lateness_s = {advice.lateness_s:g}"))
    return Group(*parts, *(Text(text, style="dim") for text in advice.notes))
