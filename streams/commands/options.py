"""Options, notes and the progress bar that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text
from typer import Argument, Option

if TYPE_CHECKING:
    from streams.settings import Settings


Config = Annotated[
    Path | None, Option("--config", "-c", help="The settings file; else GLIMPSE_CONFIG, else ./glimpse.toml if there.")
]
Source = Annotated[str, Argument(help="kafka (as set), kafka://host:port, or the directory of an archive.")]


class CommandError(RuntimeError):
    """An error that the user can fix."""


def settings_of(config: Path | None, *, buckets: bool = False) -> Settings:
    """Return the settings; a command that needs ``buckets`` refuses those without any."""
    from streams.settings import SettingsError, load

    settings = load(config)
    if buckets and not settings.buckets:
        raise SettingsError("buckets", {}, "describe at least one in glimpse.toml; see examples/glimpse.toml")
    return settings


def without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def time_of(text: str | None) -> int | None:
    """Return the milliseconds of an ISO time, None for an option that was not given."""
    from streams.logs import parse_time

    return None if text is None else parse_time(text)


def writes_to(settings: Settings, topics: Iterable[str], *, online: bool = False) -> None:
    """Say where a command is about to write: the broker and the topics by their full names, and the online store."""
    target = f"Kafka at {settings.kafka}: " + ", ".join(settings.topic_prefix + topic for topic in topics)
    if online:
        from streams.parameters.job import online_address

        address = online_address(settings)
        target += f", and to {address}" if address else ""
    note(f"writes to {target}")


def note(*lines: str) -> None:
    """Print lines to stderr, next to the output."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


class Rate(ProgressColumn):
    """Records per second."""

    def render(self, task: Task) -> Text:
        """Return the newest estimate."""
        return Text(f"{task.finished_speed or task.speed or 0:,.0f}/s")


def bar(console: Console | None = None) -> Progress:
    """Return a progress bar with rate and time left, on stderr unless told otherwise."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    return Progress(*columns, console=console or Console(stderr=True))


def task_of(progress: Progress, name: str, *, total: int | None = None) -> Callable[[int, int], None]:
    """Add a task to a progress bar, and return the function that updates it: records passed, of how many."""
    task = progress.add_task(name, total=total)
    return lambda passed, total: progress.update(task, completed=passed, total=total)
