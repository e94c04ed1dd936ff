"""The progress bar of long work."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


def bar(console: Console | None) -> Progress:
    """Return a progress bar with rate and time left; without a console it shows nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=console is None)


class Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        """Return the newest estimate."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f}/s")
