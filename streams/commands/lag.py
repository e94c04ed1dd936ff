"""glimpse lag: how far each job is behind."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from streams.commands.errors import code_of
from streams.commands.options import Config

commands = typer.Typer()


@commands.command()
def lag(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh in place until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per report.")] = False,
    max_lag_seconds: Annotated[
        float | None, typer.Option(min=0, help="Exit code 1 when a record waits for longer.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Another group on these topics; may be repeated.")] = None,
    window: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds of commits that a verdict looks at; some commits long.")
    ] = 30.0,
    every: Annotated[float, typer.Option(min=0.1, max=3_600, help="Seconds between two looks.")] = 2.0,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve it for Prometheus on this port, until SIGTERM.")
    ] = None,
    config: Config = None,
) -> None:
    """Show how far each job is behind, in records and seconds, with a verdict and why; works while they are down.

    Verdicts: OK; WARN falls behind; STALL commits but does not move; STOP commits no more; REWIND went back.
    Exit code: 0 all OK; 1 not OK, or more than --max-lag-seconds behind; 2 it could not be found out.
    """
    from streams.lag import Window
    from streams.lag.job import serve_lag, show_lag
    from streams.settings import load

    def look() -> int:
        settings, groups, past = load(config), group or [], Window(span_s=window)
        if metrics_port is not None:
            return serve_lag(settings, port=metrics_port, groups=groups, window=past, every_s=every)
        looking = partial(show_lag, settings, groups=groups, window=past, every_s=every)
        return looking(watch=watch, as_json=as_json, max_lag_s=max_lag_seconds)

    raise typer.Exit(code_of("lag", look))
