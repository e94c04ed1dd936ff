"""glimpse advise: what to change, and why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, with_buckets

commands = typer.Typer()
DAY_MS = 86_400_000


@commands.command()
def advise(
    logs: Annotated[
        str,
        typer.Argument(help="kafka (as set), kafka://host:port, or a directory: an archive, an embedded runner's."),
    ] = "kafka",
    start: Annotated[
        str | None,
        typer.Option("--from", help="Read from this time on (ISO, UTC); else a day of Kafka, all of a directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
    metrics_file: Annotated[
        Path | None, typer.Option(help="Write what was found for Prometheus' textfile collector.")
    ] = None,
    config: Config = None,
) -> None:
    """Say what to change, why, and by which command: waits, examination tables, context scales.

    Waits: how many clicks would correct a list or be lost, for each wait_s. Tables: whether users still browse as the
    table in force says, by its conditional perplexity against a fresh fit and the other click models. Scales: what
    rounding to the exact grid takes from contexts. Alerts on the metrics are in deploy/alerts.yml.
    """
    from streams.advise.job import show_advice
    from streams.logs import parse_time

    since_ms = None if start is None else parse_time(start)
    if start is None and logs.startswith("kafka"):
        since_ms = int(time.time() * 1000) - DAY_MS
    show_advice(logs, with_buckets(config), since_ms=since_ms, as_json=as_json, metrics_file=metrics_file)
