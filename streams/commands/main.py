"""glimpse: the command line with all its commands, and what it says when one fails."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib import metadata
from typing import Annotated

from typer import Exit, Option, Typer

from streams.commands import experiment, offline, records, replay, reports, running, serving, show, upkeep
from streams.commands.errors import LastWords, explained
from streams.commands.options import note

# The work is imported inside each command, so that --help answers at once.
cli = Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Learns what users like from what they click, knowing that they did not look at everything.

    A first run: glimpse demo. With servers: glimpse up, then topics, worker, produce and rank.
    Settings come from GLIMPSE_* variables and glimpse.toml (see examples/glimpse.toml).""",
)
for group in (running, serving, show, reports, records, replay, upkeep, offline, experiment):
    cli.add_typer(group.commands)


def print_version(wanted: bool) -> None:
    """Print which Glimpse this is, and end."""
    if wanted:
        print(f"glimpse {metadata.version('glimpse')}")
        raise Exit


@cli.callback()
def options(
    version: Annotated[
        bool, Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command; an expected error is one line on stderr and exit code 1."""
    last = LastWords()
    warnings.showwarning = lambda message, *_, **__: note(f"glimpse: {message}")  # without the place in the code
    logging.getLogger("kafka").addHandler(last)
    try:
        cli()
    except Exception as error:
        words = explained(error, last.text)
        if words is None:
            raise
        note(f"glimpse: {words}")
        sys.exit(1)
