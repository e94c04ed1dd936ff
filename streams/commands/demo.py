"""glimpse demo: the closed loop with simulated users."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from streams.commands.options import Config, note

commands = typer.Typer()

GLIMPSE = (sys.executable, "-m", "streams.cli")


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
    live: Annotated[
        bool,
        typer.Option("--live", help="Until Ctrl-C, over HTTP, on servers of its own: service, jobs, users, dashboard."),
    ] = False,
    rate: Annotated[float, typer.Option(min=0.01, max=1e5, help="Users a second, with --live.")] = 20.0,
    config: Config = None,
) -> None:
    """Show what each learner makes of an old ranker's log, then play all bandits against simulated users.

    It needs no server. Day one: logs that a ranker ordered by a taste of its own are learned from, and what was
    learned serves the same users. The closed loop: users with a known taste come to six buckets, one per algorithm
    and one that draws lots. Each is ranked a list by its bucket's ranker; impressions and clicks are logged, joined
    and learned; new snapshots go back to the rankers.
    """
    if live:
        raise typer.Exit(play_live(out / "live", alpha=alpha, seed=seed, rate=rate))
    from streams.demo import run_demo
    from streams.settings import load

    settings = load(config) if kafka else None
    if settings is not None:
        note(f"writes to Kafka at {settings.kafka}: topics of its own (demo-…), which are deleted in the end")
    run_demo(lists=lists, seed=seed, alpha=alpha, out=out, kafka=settings)


def play_live(folder: Path, *, alpha: float, seed: int, rate: float) -> int:
    """Run the whole loop on servers of its own until Ctrl-C, and return the exit code; the servers go again."""
    from streams.commands.supervise import supervise
    from streams.demo import LocalLoop

    loop = LocalLoop.start(folder, alpha=alpha, seed=seed, say=note)
    try:
        note(f"users: {rate:g} a second; the dashboard: {loop.dashboard_url}; settings: {loop.config}; end it: Ctrl-C")
        Thread(target=open_when_there, args=(loop.dashboard_url,), daemon=True).start()
        own = {name: value for name, value in os.environ.items() if not name.startswith("GLIMPSE_")}
        return supervise(loop.commands(GLIMPSE, rate=rate), grace_s=30.0, environ=own)
    finally:
        loop.stop(note)


def open_when_there(url: str) -> None:
    """Open a page in the browser, if there is one, once it answers."""
    from urllib.error import URLError
    from urllib.request import urlopen

    for _ in range(120):
        try:
            urlopen(url, timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.5)
        else:
            webbrowser.open(url)
            return
