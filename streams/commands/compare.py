"""glimpse compare: who won, and whether it is true."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.errors import code_of
from streams.commands.options import CommandError, Config

commands = typer.Typer()


class MetricName(StrEnum):
    """Clicks a list, and the share of lists with a click."""

    sum, set = "sum", "set"


@commands.command()
def compare(
    logs: Annotated[
        str,
        typer.Argument(help="kafka (as set), kafka://host:port, or the directory of an archive or embedded runner."),
    ] = "kafka",
    control: Annotated[str | None, typer.Option(help="The bucket to beat; else the holdout, or the first set.")] = None,
    bucket: Annotated[list[str] | None, typer.Option(help="Only this bucket; may be repeated.")] = None,
    metric: Annotated[MetricName, typer.Option(help="CTR_sum or CTR_set for the verdict.")] = MetricName.sum,
    level: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of all verdicts together.")] = 0.95,
    guardrail: Annotated[
        float, typer.Option(min=0, max=100, help="Exit code 3 when a bucket is surely this many % below the control.")
    ] = 5.0,
    split: Annotated[str | None, typer.Option(help="Version of the split; else the newest in the log.")] = None,
    share: Annotated[
        list[str] | None, typer.Option(help="BUCKET=WEIGHT that users were split by, if not as set; repeat for each.")
    ] = None,
    positions: Annotated[bool, typer.Option("--positions", help="Show click rates by position too.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with the cumulative curves.")] = None,
    metrics_file: Annotated[
        Path | None, typer.Option(help="Write alarms and lifts for Prometheus' textfile collector.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per look.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C or a guardrail.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds between two looks.")] = 60.0,
    config: Config = None,
) -> None:
    """Show who won, by how much at least and at most, since when that is certain, and whether to believe it.

    Bounds have users as their unit and may be looked at as often as you like. Two checks stand beside them: whether
    the split gives each bucket its share of users, and whether one bucket loses more of its clicks.
    Exit code: 0 all well, decided or not; 1 a check raised an alarm; 3 a bucket to stop; 2 it could not be found out.
    """
    from streams.compare import CompareChoice
    from streams.compare.job import show_comparison
    from streams.settings import load

    def look() -> int:
        choice = CompareChoice(
            control=control,
            split=split,
            shares=shares_of(share or []),
            buckets=tuple(bucket or ()),
            metric=metric.value,
            alpha=1 - level,
            guardrail=guardrail / 100,
        )
        return show_comparison(
            logs,
            load(config),
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
    raise typer.Exit(code)


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
