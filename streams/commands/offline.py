"""glimpse fit, evaluate, experiment: commands on click logs, thin around the work."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.commands.options import CommandError, Config, note, with_buckets

if TYPE_CHECKING:
    from schemas.records import Snapshot
    from streams.offline import Logs

commands = typer.Typer()

LogPlace = Annotated[
    str,
    typer.Argument(
        help="kafka (as set), kafka://host:port, the directory of an archive or of an embedded runner, or a file of "
        'JSON lines {"query": "q", "items": [7, 8], "clicks": [0, 1]}, plain or gzip.'
    ),
]
Events = Annotated[
    bool, typer.Option("--events/--samples", help="Join the raw events of Glimpse's logs again, or take its samples.")
]
From = Annotated[str | None, typer.Option("--from", help="Lists of Glimpse's logs shown from this time on (ISO, UTC)…")]
To = Annotated[str | None, typer.Option("--to", help="…and before this one.")]
Truncated = Annotated[
    bool, typer.Option("--truncated", help="Take samples of Glimpse's logs although their beginning is gone.")
]


def lists_at(
    place: str,
    events: bool,
    buckets: list[str] | None,
    start: str | None,
    stop: str | None,
    *,
    truncated: bool,
    config: Path | None,
    candidates: bool = False,
) -> Logs:
    """Return the lists of a file, or of what Glimpse has logged; what to know of them is noted."""
    from contextlib import closing

    from streams.logs import parse_time
    from streams.logs.job import open_source
    from streams.offline import ListChoice, read_logs, read_own_logs
    from streams.settings import load

    if place != "kafka" and not place.startswith("kafka://") and not Path(place).is_dir():
        if events or buckets or start or stop or truncated:
            raise CommandError(
                f"a file has all its lists: --events, a bucket, --from, --to and --truncated are not for {place}"
            )
        return read_logs(Path(place))
    choice = ListChoice(
        events=events,
        buckets=tuple(buckets or ()),
        from_ms=None if start is None else parse_time(start),
        to_ms=None if stop is None else parse_time(stop),
        truncated=truncated,
        candidates=candidates,
    )
    settings = with_buckets(config) if events else load(config)
    with closing(open_source(place, settings)) as source:
        logs, notes = read_own_logs(source, settings, choice)
    for text in notes:
        note(text)
    return logs


def policy_at(place: str, bucket: str | None, config: Path | None) -> Path | Snapshot:
    """Return a path as it is, or the newest snapshot that is served at an address."""
    from contextlib import closing

    from streams.parameters import SnapshotMissing
    from streams.parameters.job import open_parameters
    from streams.settings import load

    if place not in ("kafka", "redis") and "://" not in place:
        return Path(place)
    with closing(open_parameters(place, load(config))) as served:
        there = served.buckets()
        if bucket is None and len(there) != 1:
            raise SnapshotMissing(f"{place} has models of {', '.join(there) or 'no bucket'}; say which: --bucket NAME")
        name = bucket or there[0]
        found = served.newest(name)
        if found is None:
            raise SnapshotMissing(f"no model under {served.where(name)}; there are models of: {', '.join(there)}")
        return found


class ExperimentError(RuntimeError):
    """An experiment that cannot be played as asked."""


class ModelName(StrEnum):
    """The click models."""

    ubm, pbm, cm, dcm = "ubm", "pbm", "cm", "dcm"
    sdbn, dbn, ccm = "sdbn", "dbn", "ccm"


class EstimatorName(StrEnum):
    """The estimators, and all of them."""

    ubm_ips = "ubm-ips"
    ubm_dr = "ubm-dr"
    ubm_linear = "ubm-linear"
    ubm_ips_sequential = "ubm-ips-sequential"
    ips = "ips"
    position_ips = "position-ips"
    cascade_ips = "cascade-ips"
    cascade_dr = "cascade-dr"
    every = "all"


@commands.command()
def fit(
    logs: LogPlace,
    model: Annotated[ModelName, typer.Option(help="Whose table to write.")] = ModelName.ubm,
    out: Annotated[Path | None, typer.Option(help="The table's JSON file, as glimpse.toml names it.")] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Lists to judge on; else every fifth session of LOGS, or list if it has none.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the heat map as an SVG file too.")] = None,
    bucket: Annotated[list[str] | None, typer.Option(help="Only lists of this bucket; may be repeated.")] = None,
    events: Events = False,
    start: From = None,
    stop: To = None,
    truncated: Truncated = False,
    config: Config = None,
) -> None:
    """Learn from logged lists how users browse: the examination table, and which click model fits best.

    Clicks tell w only up to a factor. By convention the largest well-observed cell of a written table is 1; the factor
    that was taken out is said, and loading a table never rescales it.
    """
    from rich.console import Console

    from streams.offline import read_logs, run_fit

    lists = lists_at(logs, events, bucket, start, stop, truncated=truncated, config=config)
    others = None if held_out is None else read_logs(held_out)
    run_fit(lists, model=model.value, out=out, held_out=others, picture=picture, console=Console())


@commands.command()
def evaluate(
    logs: LogPlace,
    policy: Annotated[
        str, typer.Option(help="A snapshot file, a directory of them, or where they are served: kafka, redis, a URL.")
    ],
    estimator: Annotated[
        list[EstimatorName] | None,
        typer.Option(help="May be repeated; else ubm-ips, or ubm-linear where no two lists are alike."),
    ] = None,
    bucket: Annotated[str | None, typer.Option(help="Whose snapshot, if there are several.")] = None,
    table: Annotated[Path | None, typer.Option(help="The examination table; else it is learned from LOGS.")] = None,
    size: Annotated[int | None, typer.Option(min=1, max=50, help="Length of the policy's lists.")] = None,
    temperature: Annotated[
        float, typer.Option(min=0, help="Above 0 the policy draws items by e^(estimate / temperature).")
    ] = 0.0,
    clip: Annotated[float | None, typer.Option(help="The largest weight.")] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Divide by the mean weight.")] = False,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the intervals; 0 for asymptotic ones.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
    log_bucket: Annotated[
        list[str] | None, typer.Option(help="Only logged lists of this bucket; may be repeated.")
    ] = None,
    events: Events = False,
    start: From = None,
    stop: To = None,
    truncated: Truncated = False,
    config: Config = None,
) -> None:
    """Judge a policy on the log of another one: what its lists would have earned, with intervals.

    A file has a list a line. "items" and "clicks" are needed. "query" names what was asked for: an item counts as the
    same thing only under the same query. "contexts" has the vector of each item, by which the policy ranks.
    "candidate_items" and "candidate_contexts" have all that the list was chosen from, those shown included: the policy
    chooses from the same. Glimpse's own impressions carry them if the service gives them to the EventWriter. Without
    them it is said what was assumed: all items of a query, or only those shown.

    Where an item's vectors differ between lists (they tell of users), nothing was logged twice: ubm-linear judges by
    the model that the bandits learn by. Propensities are taken from the log ("propensities", given the items above;
    "position_propensities") if it has them, and estimated from its frequencies otherwise.
    """
    from rich.console import Console

    from streams.offline import EvaluationRequest, chosen_estimators, evaluate_policy, evaluation_json, show_evaluation

    lists = lists_at(logs, events, log_bucket, start, stop, truncated=truncated, config=config, candidates=True)
    report = evaluate_policy(
        EvaluationRequest(
            lists,
            policy_at(policy, bucket, config),
            chosen_estimators([each.value for each in estimator or ()]),
            bucket=bucket,
            table=table,
            size=size,
            temperature=temperature,
            clip=clip,
            normalise=normalise,
            level=level,
            draws=bootstrap,
            seed=seed,
        )
    )
    if as_json:
        print(evaluation_json(report))
    else:
        show_evaluation(report, Console())


@commands.command()
def experiment(
    name: Annotated[str, typer.Argument(help="day-one, gap, coverage, yandex, taobao or online.")],
    logs: Annotated[
        list[Path] | None,
        typer.Option(
            help="A click log, JSON lines, plain or gzip. yandex: one; day-one: pairs, to learn and to judge."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the report; else experiment-<name>.")] = None,
    rounds: Annotated[int | None, typer.Option(min=100, help="Lists per algorithm and seed; else as reported.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Worlds that everything is played in.")] = 10,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
) -> None:
    """Redo an experiment of the paper, or one that explains it: tables, intervals and figures.

    day-one: what each learner makes of an old ranker's log. gap: where weighting by examination pays. coverage: how
    often the intervals of offline estimates hold the truth. yandex, taobao, online: the paper's own three.
    """
    from streams.offline.job import run_coverage, run_day_one, run_gap, run_online, run_taobao, run_yandex

    folder, given = out or Path(f"experiment-{name}"), logs or []
    more = {} if rounds is None else {"rounds": rounds}
    if name == "day-one":
        if len(given) % 2:
            raise ExperimentError(
                "glimpse experiment day-one takes logs in pairs: --logs to-learn-from --logs to-judge"
            )
        run_day_one(folder, logs=list(zip(given[::2], given[1::2], strict=True)), seeds=seeds, workers=workers)
    elif name == "gap":
        run_gap(folder, seeds=seeds, workers=workers, **more)
    elif name == "coverage":
        run_coverage(folder, replications=rounds or 1000, workers=workers)
    elif name == "yandex":
        if len(given) != 1:
            raise ExperimentError("glimpse experiment yandex needs one click log: --logs pages.jsonl.gz")
        run_yandex(given[0], folder, seeds=seeds, workers=workers, **more)
    elif name == "taobao":
        run_taobao(folder, seeds=seeds, workers=workers, **more)
    elif name == "online":
        run_online(folder, seeds=seeds, workers=workers, **more)
    else:
        raise ExperimentError(
            f"there are the experiments day-one, gap, coverage, yandex, taobao and online; {name!r} is none of them"
        )
