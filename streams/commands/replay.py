"""glimpse replay: relearn from logged topics."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.commands.options import Config, note, with_buckets
from streams.commands.progress import bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.progress import Progress

    from schemas.records import Snapshot
    from streams.logs import LogSource
    from streams.replay.job import Replayed
    from streams.settings import Settings

commands = typer.Typer()
JUDGED_LISTS = 20_000  # the newest, on which a model with other parameters is judged

From = Annotated[
    list[str] | None, typer.Option("--from", help="A time (ISO, UTC) or topic:partition:offset; several are possible.")
]
To = Annotated[list[str] | None, typer.Option("--to", help="Before this time or topic:partition:offset.")]
Source = Annotated[str, typer.Argument(help="kafka (as set), kafka://host:port, or the directory of an archive.")]


@commands.command()
def replay(
    source: Source,
    samples: Annotated[
        bool | None, typer.Option("--samples/--events", help="Samples, or raw events if they are there.")
    ] = None,
    bucket: Annotated[list[str] | None, typer.Option(help="Only these buckets.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Learn with another algorithm.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Another width of the bound.")] = None,
    ridge: Annotated[float | None, typer.Option(help="Another λ.")] = None,
    table: Annotated[Path | None, typer.Option(help="Another examination table (JSON).")] = None,
    context_scale: Annotated[float | None, typer.Option(help="Divide contexts by this.")] = None,
    reward_scale: Annotated[float | None, typer.Option(help="Divide rewards by this.")] = None,
    epoch: Annotated[int | None, typer.Option(help="Of the snapshots that are written.")] = None,
    wait: Annotated[float | None, typer.Option(help="Seconds until a list closes.")] = None,
    lateness: Annotated[float | None, typer.Option(help="Seconds more in which clicks correct it.")] = None,
    start: From = None,
    stop: To = None,
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="Leave out lists that are still open at the end of the events.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write snapshots here; interrupted, the same command goes on; again, it updates."),
    ] = None,
    to_topic: Annotated[str | None, typer.Option(help="Write snapshots to this parameter topic.")] = None,
    to_snapshot: Annotated[
        str | None, typer.Option(help="Rebuild BUCKET:EPOCH.OFFSET from the samples and compare every bit.")
    ] = None,
    live: Annotated[
        str | None, typer.Option(help="Compare with: kafka, an archive or a directory of snapshots; else the source.")
    ] = None,
    candidates: Annotated[
        typer.FileText | None, typer.Option(help="JSON lines as of `glimpse rank`, to compare top lists on.")
    ] = None,
    truncated: Annotated[
        bool, typer.Option("--truncated", help="Learn from samples although their beginning is gone.")
    ] = False,
    readers: Annotated[int, typer.Option(min=1, help="Processes; the outcome is the same with any number.")] = 1,
    config: Config = None,
) -> None:
    """Relearn from logged topics: events or samples, with the deployed parameters or others.

    Reads by assignment, so no live group is touched. Prints a line per bucket (name, algorithm, lists, SHA-256 of its
    state), then what was read and how fast, then how far each model is from the live one: what is the same (A and b)
    and what is not (α, λ, θ, ranks). With other parameters it estimates what would have been earned on the newest
    lists, by UBM-IPS, or by a linear model where vectors tell of users; see: glimpse evaluate --help.
    """
    from dataclasses import replace

    from streams.logs import Range, parse_mark
    from streams.logs.job import open_source
    from streams.rank import read_candidates
    from streams.replay import check_beginning, compare, deployed, plan_of
    from streams.replay.job import check_newer, in_directory, on_topic, snapshots_of, write_directory, write_topic
    from streams.settings import read_examination

    settings = with_buckets(config)
    settings = replace(
        settings,
        wait_s=settings.wait_s if wait is None else wait,
        lateness_s=settings.lateness_s if lateness is None else lateness,
    )
    logs = open_source(source, settings)
    if to_snapshot is not None:
        rebuild(logs, settings, to_snapshot)
        return
    settings, warnings = deployed(logs, settings)
    for text in warnings:
        note(text)
    asked: dict[str, Any] = {"algorithm": algorithm, "alpha": alpha, "ridge": ridge, "epoch": epoch}
    asked |= {"context_scale": context_scale, "reward_scale": reward_scale}
    asked["examination"] = None if table is None else read_examination(table)
    plan, notes = plan_of(
        logs,
        settings,
        samples=samples,
        only=bucket or (),
        within=Range([parse_mark(text) for text in start or ()], [parse_mark(text) for text in stop or ()]),
        finish=not keep_open,
        changes={name: value for name, value in asked.items() if value is not None},
    )
    for text in notes:
        note(text)
    if not truncated:
        check_beginning(plan)
    shown = None if candidates is None else read_candidates(candidates)
    if out is not None:
        check_newer(plan, in_directory(out, plan.buckets))
    if to_topic is not None:
        check_newer(plan, on_topic(settings, to_topic))
    found = live_of(live, logs, settings, plan.buckets)
    done = run(plan, out, readers)
    for text in done.notes:
        note(text)
    told(done)
    snapshots = snapshots_of(done, now_ms=int(time.time() * 1000))
    if out is not None:
        write_directory(out, snapshots)
    if to_topic is not None:
        note(f"writes to Kafka at {settings.kafka}: {to_topic}")
        write_topic(settings, to_topic, snapshots)
    for comparison in compare(done.models, found, candidates=shown):
        print(comparison)
    if any(value is not None for name, value in asked.items() if name != "epoch"):
        for line in earned(logs, settings, snapshots, found):
            print(line)


def earned(
    logs: LogSource, settings: Settings, snapshots: list[Snapshot], live: Mapping[str, Snapshot]
) -> Iterator[str]:
    """Yield what models with other parameters would have earned on the newest lists of their buckets."""
    from streams.offline import ListChoice, LogError, read_own_logs, what_if

    for snapshot in snapshots:
        bucket = settings.buckets[snapshot.bucket]
        choice = ListChoice(
            events=not logs.has("samples"),
            buckets=(snapshot.bucket,),
            truncated=True,
            candidates=True,
            newest=JUDGED_LISTS,
        )
        try:
            lists, _ = read_own_logs(logs, settings, choice)
        except LogError as error:
            yield f"{snapshot.bucket}: what it would have earned cannot be told: {error}"
            continue
        table = bucket.examination if bucket.examination is not None and bucket.examination.ndim == 2 else None
        yield from what_if(lists, snapshot, live.get(snapshot.bucket), examination=table)


def run(plan: Any, out: Path | None, readers: int) -> Replayed:
    """Carry out a plan behind a progress bar."""
    from rich.console import Console

    from streams.replay.job import Interrupted
    from streams.replay.job import replay as work

    progress = bar(Console(stderr=True))
    task = progress.add_task(" and ".join(plan.topics), total=plan.total())
    try:
        with progress:
            return work(
                plan,
                out=out,
                readers=readers,
                say=lambda passed, total: progress.update(task, completed=passed, total=total),
            )
    except Interrupted:
        again = f"the same command goes on from there: {out}" if out else "with --out it could go on from there"
        typer.echo(f"glimpse: stopped after {how_far(progress)} records; {again}", err=True)
        raise typer.Exit(130) from None
    except (ValueError, ConnectionError):  # of the logs; said below, but first how far it was
        typer.echo(f"glimpse: {how_far(progress)} records were replayed", err=True)
        raise


def how_far(progress: Progress) -> str:
    """Return how much was done, of how much."""
    [task] = progress.tasks
    return f"{int(task.completed):,} of {int(task.total or 0):,}"


def told(done: Replayed) -> None:
    """Print what a replay gave."""
    for name, model in sorted(done.models.items()):
        print(f"{name}\t{model.name}\t{model.rounds} lists\t{model.sha256()}")
    rate = max(done.seconds, 1e-9)
    print(
        f"{done.passed:,} records in {done.seconds:.1f} s: {done.passed / rate:,.0f} records/s, "
        f"{done.rows:,} rows, {done.rows / rate:,.0f} rows/s"
    )
    if done.refused:
        print(f"{done.refused:,} refused; the first: {done.reason}")


def live_of(live: str | None, logs: LogSource, settings: Settings, buckets: Mapping[str, Any]) -> dict[str, Snapshot]:
    """Return the snapshots to compare with; a place that was named and has none is refused."""
    from streams.logs import Archive
    from streams.logs.job import open_source
    from streams.replay import ReplayError, live_snapshots, snapshots_in

    if live is None:
        return live_snapshots(logs)
    if live == "kafka" or live.startswith("kafka://") or Archive(live).topics():
        found = live_snapshots(open_source(live, settings))
    else:
        found = snapshots_in(Path(live), buckets)
    if not found.keys() & buckets.keys():
        raise ReplayError(
            f"--live {live} has no snapshot of {', '.join(buckets)}; wanted kafka, kafka://host:port, an archive with "
            "its parameters topic, or a directory of snapshots"
        )
    return found


def rebuild(logs: LogSource, settings: Settings, name: str) -> None:
    """Print whether the log gives a snapshot again."""
    from rich.console import Console

    from streams.replay.job import Wanted
    from streams.replay.job import rebuild as work

    with bar(Console(stderr=True)) as progress:
        task = progress.add_task("samples", total=None)
        done = work(
            logs,
            settings,
            Wanted.parse(name),
            say=lambda passed, total: progress.update(task, completed=passed, total=total),
        )
    model = done.model
    print(f"{done.name}\t{model.name}\t{model.rounds} lists\t{model.sha256()}")
    if done.found is None:
        print("the parameters topic no longer has this snapshot (compaction keeps the newest): nothing to compare with")
    else:
        print("A and b are the same, bit by bit, as in the published snapshot")
