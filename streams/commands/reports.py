"""glimpse compare, advise, lag and dashboard: who won, what to change, what is behind, and the page with all of it."""

from __future__ import annotations

import secrets
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option, Typer

from streams.commands.errors import code_of
from streams.commands.options import CommandError, Config, note, settings_of, time_of

commands = Typer()


@commands.command()
def compare(
    logs: Annotated[
        str, Argument(help="kafka (as set), kafka://host:port, or the directory of an archive or embedded runner.")
    ] = "kafka",
    control: Annotated[str | None, Option(help="The bucket to beat; else the holdout, or the first set.")] = None,
    bucket: Annotated[list[str] | None, Option(help="Only this bucket; may be repeated.")] = None,
    metric: Annotated[Literal["sum", "set"], Option(help="CTR_sum or CTR_set for the verdict.")] = "sum",
    level: Annotated[float, Option(min=0.5, max=0.9999, help="Of all verdicts together.")] = 0.95,
    guardrail: Annotated[
        float, Option(min=0, max=100, help="Exit code 3 when a bucket is surely this many % below the control.")
    ] = 5.0,
    split: Annotated[str | None, Option(help="Version of the split; else the newest in the log.")] = None,
    share: Annotated[
        list[str] | None, Option(help="BUCKET=WEIGHT that users were split by, if not as set; repeat for each.")
    ] = None,
    positions: Annotated[bool, Option("--positions", help="Show click rates by position too.")] = False,
    report: Annotated[Path | None, Option(help="Write an HTML page with the cumulative curves.")] = None,
    metrics_file: Annotated[
        Path | None, Option(help="Write alarms and lifts for Prometheus' textfile collector.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="One line of JSON per look.")] = False,
    watch: Annotated[bool, Option("--watch", help="Look again and again, until Ctrl-C or a guardrail.")] = False,
    every: Annotated[float, Option(min=0.1, max=86_400, help="Seconds between two looks.")] = 60.0,
    config: Config = None,
) -> None:
    """Show who won, by how much at least and at most, since when that is certain, and whether to believe it.

    Bounds have users as their unit and may be looked at as often as you like. Two checks stand beside them: whether
    the split gives each bucket its share of users, and whether one bucket loses more of its clicks.
    Exit code: 0 all well, decided or not; 1 a check raised an alarm; 3 a bucket to stop; 2 it could not be found out.
    """
    from streams.compare import CompareChoice
    from streams.compare.job import show_comparison

    def look() -> int:
        choice = CompareChoice(
            control=control,
            split=split,
            shares=shares_of(share or []),
            buckets=tuple(bucket or ()),
            metric=metric,
            alpha=1 - level,
            guardrail=guardrail / 100,
        )
        return show_comparison(
            logs,
            settings_of(config),
            choice,
            as_json=as_json,
            report=report,
            metrics_file=metrics_file,
            positions=positions,
            watch=watch,
            every_s=every,
        )

    try:
        code = code_of("compare", look)
    except KeyboardInterrupt:
        code = 0
    raise Exit(code)


def shares_of(texts: list[str]) -> dict[str, float]:
    """Return the weights that were given."""
    shares = {}
    for text in texts:
        name, _, weight = text.partition("=")
        try:
            shares[name] = float(weight)
        except ValueError:
            shares[name] = -1.0
        if not name or not 0 <= shares[name] < float("inf"):
            raise CommandError(f"--share takes BUCKET=WEIGHT with a weight of at least 0, got {text!r}")
    return shares


@commands.command()
def advise(
    logs: Annotated[
        str, Argument(help="kafka (as set), kafka://host:port, or a directory: an archive, an embedded runner's.")
    ] = "kafka",
    start: Annotated[
        str | None, Option("--from", help="Read from this time on (ISO, UTC); else a day of Kafka, all of a directory.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="One line of JSON.")] = False,
    metrics_file: Annotated[
        Path | None, Option(help="Write what was found for Prometheus' textfile collector.")
    ] = None,
    config: Config = None,
) -> None:
    """Say what to change, why, and by which command: waits, examination tables, context scales.

    Waits: how many clicks would correct a list or be lost, for each wait_s. Tables: whether users still browse as the
    table in force says, by its conditional perplexity against a fresh fit and the other click models. Scales: what
    rounding to the exact grid takes from contexts. Alerts on the metrics are in deploy/alerts.yml.
    """
    from streams.advise.job import show_advice

    since_ms = time_of(start)
    if start is None and logs.startswith("kafka"):
        since_ms = int(time.time() * 1000) - 86_400_000  # a day
    show_advice(logs, settings_of(config, buckets=True), since_ms=since_ms, as_json=as_json, metrics_file=metrics_file)


@commands.command()
def lag(
    watch: Annotated[bool, Option("--watch", help="Refresh in place until Ctrl-C.")] = False,
    as_json: Annotated[bool, Option("--json", help="One line of JSON per report.")] = False,
    max_lag_seconds: Annotated[float | None, Option(min=0, help="Exit code 1 when a record waits for longer.")] = None,
    group: Annotated[list[str] | None, Option(help="Another group on these topics; may be repeated.")] = None,
    window: Annotated[
        float, Option(min=1, max=86_400, help="Seconds of commits that a verdict looks at; some commits long.")
    ] = 30.0,
    every: Annotated[float, Option(min=0.1, max=3_600, help="Seconds between two looks.")] = 2.0,
    metrics_port: Annotated[
        int | None, Option(min=0, max=65535, help="Serve it for Prometheus on this port, until SIGTERM.")
    ] = None,
    config: Config = None,
) -> None:
    """Show how far each job is behind, in records and seconds, with a verdict and why; works while they are down.

    Verdicts: OK; WARN falls behind; STALL commits but does not move; STOP commits no more; REWIND went back.
    Exit code: 0 all OK; 1 not OK, or more than --max-lag-seconds behind; 2 it could not be found out.
    """
    from streams.lag import Window
    from streams.lag.job import serve_lag, show_lag

    def look() -> int:
        settings, groups, past = settings_of(config), group or [], Window(span_s=window)
        if metrics_port is not None:
            return serve_lag(settings, port=metrics_port, groups=groups, window=past, every_s=every)
        looking = partial(show_lag, settings, groups=groups, window=past, every_s=every)
        return looking(watch=watch, as_json=as_json, max_lag_s=max_lag_seconds)

    raise Exit(code_of("lag", look))


@commands.command()
def dashboard(
    archive: Annotated[Path | None, Argument(help="The directory of an archive; else Kafka, as set, is shown.")] = None,
    host: Annotated[str, Option(help="Where to serve; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes any free one.")] = 6068,
    token_file: Annotated[
        Path | None, Option(help="A file with the token; else one is made when others can reach the page.")
    ] = None,
    config: Config = None,
) -> None:
    """Serve a live page: lag, click rates, examination, delays, snapshots, dead letters, freshness.

    The address that is printed has the token that was made; TOKEN stands for one that came from --token-file.
    It only reads, beside whatever runs or does not run, and goes on by itself when Kafka was away.
    """
    from streams.dashboard.job import of_archive, of_kafka, serve
    from streams.settings import read_secret
    from streams.web import is_loopback

    token = read_secret("--token-file", token_file) if token_file else None
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    settings = settings_of(config)
    if archive is None:
        page = of_kafka(settings, host=host, port=port, token=token)
    else:
        page = of_archive(settings, archive, host=host, port=port, token=token)
    secret = token if token_file else None  # one that was made here is shown once, or nobody could come in
    raise Exit(serve(page, say=lambda text: note(text.replace(secret, "TOKEN") if secret else text)))
