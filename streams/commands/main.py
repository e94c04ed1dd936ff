"""glimpse: the command line with all its commands, and what it says when one fails."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib import metadata
from typing import Annotated, Any

import typer

from streams.commands import (
    advise,
    archive,
    catalogue,
    compare,
    dashboard,
    dead_letters,
    demo,
    drill,
    encoder,
    jobs,
    lag,
    ledger,
    offline,
    produce,
    rank,
    replay,
    rollout,
    serve,
    servers,
    show,
    traffic,
)
from streams.commands.errors import LastWords, explained
from streams.commands.options import note

# The work is imported inside each command, so that --help answers at once.
cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Learns what users like from what they click, knowing that they did not look at everything.

    A first run: glimpse demo. With servers: glimpse up, then topics, worker, produce and rank.
    Settings come from GLIMPSE_* variables and glimpse.toml (see examples/glimpse.toml).""",
)
for group in (
    demo,
    servers,
    jobs,
    produce,
    rank,
    catalogue,
    serve,
    traffic,
    show,
    compare,
    advise,
    lag,
    dashboard,
    dead_letters,
    archive,
    replay,
    rollout,
    ledger,
    drill,
    offline,
    encoder,
):
    cli.add_typer(group.commands)


def print_version(wanted: bool) -> None:
    """Print which Glimpse this is, and end."""
    if wanted:
        print(f"glimpse {metadata.version('glimpse')}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


def one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """Say a warning as a command does, without the place in the code."""
    note(f"glimpse: {message}")


def main() -> None:
    """Run the command; an expected error is one line on stderr and exit code 1."""
    last = LastWords()
    warnings.showwarning = one_line
    logging.getLogger("kafka").addHandler(last)
    try:
        cli()
    except Exception as error:
        words = explained(error, last.text)
        if words is None:
            raise
        note(f"glimpse: {words}")
        sys.exit(1)
