"""glimpse archive and restore: topics to a directory of files, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, writes_to
from streams.commands.progress import bar

commands = typer.Typer()


@commands.command()
def archive(
    folder: Annotated[Path, typer.Argument(help="The directory; one that has an archive is brought up to date.")],
    topic: Annotated[list[str] | None, typer.Option(help="Only these, as in --topic samples; else all six.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="From this time (ISO, UTC).")] = None,
    stop: Annotated[str | None, typer.Option("--to", help="Before this time.")] = None,
    codec: Annotated[str | None, typer.Option(help="zstandard, deflate or null; else the best installed.")] = None,
    config: Config = None,
) -> None:
    """Copy topics from Kafka to a directory of Avro files, with offsets and time stamps; again, it goes on."""
    from rich.console import Console

    from streams.logs import Archive, parse_time
    from streams.logs.job import copy
    from streams.settings import TOPICS, load

    done = copy(
        load(config),
        Archive(folder),
        topics=topic or TOPICS,
        from_ms=None if start is None else parse_time(start),
        to_ms=None if stop is None else parse_time(stop),
        codec=codec,
        progress=bar(Console(stderr=True)),
    )
    for part in done:
        print(f"{part.topic}\t{part.partition}\t{part.start} to {part.end}\t{part.records} records")


@commands.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="The directory of an archive.")],
    topic: Annotated[list[str] | None, typer.Option(help="Which; else impressions and clicks.")] = None,
    config: Config = None,
) -> None:
    """Write an archive back to Kafka, into empty topics that keep its time stamps; interrupted, it goes on."""
    from rich.console import Console

    from streams.logs import Archive
    from streams.logs.job import restore as work
    from streams.settings import EVENTS, load

    settings, chosen = load(config), topic or EVENTS
    writes_to(settings, chosen)
    done = work(settings, Archive.open(folder), topics=chosen, progress=bar(Console(stderr=True)))
    for part in done:
        print(f"{part.topic}\t{part.partition}\t{part.records} records, {part.end} in all")
