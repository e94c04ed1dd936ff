"""glimpse catalogue: what ranking services hold, onto Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note, writes_to

commands = typer.Typer()


@commands.command()
def catalogue(
    file: Annotated[Path, typer.Argument(help="Items and users with features, as JSON lines or .npz.")],
    config: Config = None,
) -> None:
    """Publish a catalogue to Kafka, for every `glimpse serve --catalogue kafka`: what changed, all at once.

    A record is a line of the file. Its key is "item 7" for {"item": 7, "features": [0.5]}, "user u1" for {"user": "u1",
    …}, "recipe" for the recipe. Services may write theirs, too; one without a value takes its item or user out.
    """
    from streams.rank.job import publish_catalogue
    from streams.settings import load

    settings = load(config)
    writes_to(settings, ["catalogue"])
    done = publish_catalogue(settings, file)
    note(f"{done.items} items and {done.users} users; {done.written} records written, {done.removed} taken out")
