"""glimpse experiment: the paper's experiments and those that explain it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from typer import Option, Typer

from streams.commands.options import CommandError

commands = Typer()


@commands.command()
def experiment(
    name: Literal["day-one", "gap", "coverage", "yandex", "taobao", "online"],
    logs: Annotated[
        list[Path] | None,
        Option(help="A click log, JSON lines, plain or gzip. yandex: one; day-one: pairs, to learn and to judge."),
    ] = None,
    out: Annotated[Path | None, Option(help="The folder of the report; else experiment-<name>.")] = None,
    rounds: Annotated[
        int | None, Option(min=100, help="Lists per algorithm and seed, logs for coverage; else as reported.")
    ] = None,
    seeds: Annotated[
        int | None, Option(min=1, help="Worlds that everything is played in; coverage has none. Default: 10.")
    ] = None,
    workers: Annotated[int, Option(min=1, help="Processes.")] = os.cpu_count() or 1,
) -> None:
    """Redo an experiment of the paper, or one that explains it: tables, intervals and figures.

    day-one: what each learner makes of an old ranker's log. gap: where weighting by examination pays. coverage: how
    often the intervals of offline estimates hold the truth. yandex, taobao, online: the paper's own three.
    """
    from streams.experiments.job import run_coverage, run_day_one, run_gap, run_online, run_taobao, run_yandex

    folder, given = out or Path(f"experiment-{name}"), logs or []
    count = {} if rounds is None else {"rounds": rounds}
    if name == "coverage":
        if seeds is not None:
            raise CommandError("glimpse experiment coverage has no worlds to seed; give the number of logs: --rounds")
        run_coverage(folder, replications=rounds or 1000, workers=workers)
        return
    count |= {} if seeds is None else {"seeds": seeds}
    if name == "day-one":
        if rounds is not None:
            raise CommandError("glimpse experiment day-one takes no --rounds: its logs have the lengths of its table")
        if len(given) % 2:
            raise CommandError("glimpse experiment day-one takes logs in pairs: --logs to-learn-from --logs to-judge")
        run_day_one(folder, logs=list(zip(given[::2], given[1::2], strict=True)), workers=workers, **count)
    elif name == "yandex":
        if len(given) != 1:
            raise CommandError("glimpse experiment yandex needs one click log: --logs pages.jsonl.gz")
        run_yandex(given[0], folder, workers=workers, **count)
    else:
        {"gap": run_gap, "taobao": run_taobao, "online": run_online}[name](folder, workers=workers, **count)
