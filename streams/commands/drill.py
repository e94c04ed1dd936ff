"""glimpse drill: break it on purpose."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note, writes_to

commands = typer.Typer()


@commands.command()
def drill(
    faults: Annotated[int, typer.Option(min=1, max=1000, help="How many; every kind once before any comes again.")] = 8,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="Of load for each fault.")] = 6.0,
    rate: Annotated[float, typer.Option(min=1, max=5000, help="Lists a second.")] = 200.0,
    workers: Annotated[int, typer.Option(min=1, max=8, help="Join processes, and as many that learn.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same faults and the same load.")] = 1,
    kind: Annotated[list[str] | None, typer.Option(help="Only these faults, as in --kind kill-join.")] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On Kafka and Redis as set, in topics of its own; breaks only workers.")
    ] = False,
    config: Config = None,
) -> None:
    """Break it on purpose, and see whether every bit is right afterwards; exit code 1 when one is not.

    A Kafka and a Redis of its own are started in a temporary folder. Simulated lists are shown to the buckets of
    glimpse.toml (or to three of its own); workers are killed and frozen, the servers stopped, killed and emptied. After
    each fault everything must be learned exactly as in a run without faults, on Kafka and in Redis.
    """
    from rich.console import Console

    from streams.drill import Outcome, drill_settings, plan_faults, possible_faults, table_of
    from streams.drill.job import own_servers, run_drill, servers_as_set
    from streams.settings import TOPICS, load

    settings = drill_settings(load(config))
    plan = plan_faults(possible_faults(kind, own_servers=not kafka), faults, load_s=seconds, seed=seed)
    folder = Path(tempfile.mkdtemp(prefix="glimpse-drill-"))
    outcomes: list[Outcome] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended then, too
    try:
        with servers_as_set(settings) if kafka else own_servers(settings, folder) as servers:
            writes_to(servers.settings, TOPICS, redis=True)
            playing = run_drill(servers, plan, folder, load_s=seconds, rate=rate, workers=workers, seed=seed, say=note)
            outcomes.extend(playing)
    finally:  # also what was found until Ctrl-C
        Console(width=None if Console().is_terminal else 200).print(table_of(outcomes))
        if len(outcomes) < faults or not all(outcome.good for outcome in outcomes):
            note(f"what the workers and servers said is in {folder}")
    if not all(outcome.good for outcome in outcomes):
        raise typer.Exit(1)
    shutil.rmtree(folder)
