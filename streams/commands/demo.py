"""glimpse demo: the closed loop with simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note

commands = typer.Typer()


@commands.command()
def demo(
    lists: Annotated[int, typer.Option(min=600, help="Lists to show, in all buckets together.")] = 30_000,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed plays the same users and gives the same numbers.")
    ] = 1,
    alpha: Annotated[
        float, typer.Option(min=0, max=1e6, help="Width of the confidence bound, the same for all.")
    ] = 0.3,
    out: Annotated[Path, typer.Option(help="Where the logs and report.html go.")] = Path("demo"),
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On Kafka as set, with a real join and learn process.")
    ] = False,
    config: Config = None,
) -> None:
    """Play all bandits against simulated users, in one process and without any server.

    Users with a known taste come to six buckets, one per algorithm and one that draws lots. Each is ranked a list by
    its bucket's ranker; impressions and clicks are logged, joined and learned; new snapshots go back to the rankers.
    """
    from streams.demo import run_demo
    from streams.settings import load

    settings = load(config) if kafka else None
    if settings is not None:
        note(f"writes to Kafka at {settings.kafka}: topics of its own (demo-…), which are deleted in the end")
    run_demo(lists=lists, seed=seed, alpha=alpha, out=out, kafka=settings)
