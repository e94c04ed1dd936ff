"""glimpse join, learn and worker: the stream jobs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from streams.commands.options import Config, with_buckets, writes_to

commands = typer.Typer()


From = Annotated[
    str | None,
    typer.Option(
        "--from", help="Where a join that never began begins: earliest, latest or an ISO time; no effect later."
    ),
]
Anew = Annotated[
    bool,
    typer.Option(
        "--anew",
        help="Begin again, by --from, what is refused when this process first looks at it; loses or repeats events.",
    ),
]


@contextmanager
def ends_well_when_told() -> Iterator[None]:
    """End with 0 on SIGTERM, also before the job listens to it, when there is nothing to end, and after that."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:  # it ends anyway; Python would give a handler's default back before
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def in_one_thread() -> None:
    """Have BLAS use one thread unless told: products of a job are small, and threads mostly wait for each other."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when numpy is loaded


@commands.command()
def join(start: From = None, anew: Anew = False, config: Config = None) -> None:
    """Join impressions and clicks into samples, exactly once, until SIGTERM."""
    in_one_thread()
    with ends_well_when_told():
        from streams.join.job import run_join

        settings = with_buckets(config)
        writes_to(settings, ("samples", "late-clicks", "dead-letters"))
        code = run_join(settings, start=start, anew=anew)
    raise typer.Exit(code)


@commands.command()
def learn(config: Config = None) -> None:
    """Learn each bucket's model from samples and publish snapshots to Kafka and Redis, until SIGTERM."""
    in_one_thread()
    with ends_well_when_told():
        from streams.learn.job import run_learn

        settings = with_buckets(config)
        writes_to(settings, ("parameters", "dead-letters"), redis=True)
        code = run_learn(settings)
    raise typer.Exit(code)


@commands.command()
def worker(start: From = None, config: Config = None) -> None:
    """Run join and learn together, as two processes that end together; exit code not 0 when one died."""
    from streams.commands.supervise import supervise

    with_buckets(config)  # a wrong setting is said once, not by both
    glimpse = [sys.executable, "-m", "streams.cli"]
    options = ["--config", str(config)] if config else []
    begin = ["--from", start] if start else []
    raise typer.Exit(supervise({"join": [*glimpse, "join", *begin, *options], "learn": [*glimpse, "learn", *options]}))
