"""glimpse replay: relearn from logged topics."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, FileText, Option, Typer

from streams.commands.options import Config, Source, bar, note, settings_of, task_of, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from schemas.records import Snapshot
    from streams.logs import LogSource
    from streams.replay.job import Replayed
    from streams.settings import Settings

commands = Typer()
JUDGED_LISTS = 20_000  # the newest, on which a model with other parameters is judged


@commands.command()
def replay(
    source: Source,
    samples: Annotated[
        bool | None, Option("--samples/--events", help="Samples, or raw events if they are there.")
    ] = None,
    bucket: Annotated[list[str] | None, Option(help="Only these buckets.")] = None,
    algorithm: Annotated[str | None, Option(help="Learn with another algorithm.")] = None,
    alpha: Annotated[float | None, Option(help="Another width of the bound.")] = None,
    ridge: Annotated[float | None, Option(help="Another λ.")] = None,
    examination: Annotated[Path | None, Option(help="Another examination table (JSON).")] = None,
    context_scale: Annotated[float | None, Option(help="Divide contexts by this.")] = None,
    reward_scale: Annotated[float | None, Option(help="Divide rewards by this.")] = None,
    epoch: Annotated[int | None, Option(help="Of the snapshots that are written.")] = None,
    wait: Annotated[float | None, Option(help="Seconds until a list closes.")] = None,
    lateness: Annotated[float | None, Option(help="Seconds more in which clicks correct it.")] = None,
    start: Annotated[
        list[str] | None, Option("--from", help="A time (ISO, UTC) or topic:partition:offset; several are possible.")
    ] = None,
    stop: Annotated[list[str] | None, Option("--to", help="Before this time or topic:partition:offset.")] = None,
    keep_open: Annotated[
        bool, Option("--keep-open", help="Leave out lists that are still open at the end of the events.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="Write snapshots here; interrupted, the same command goes on; again, it updates.")
    ] = None,
    to_topic: Annotated[str | None, Option(help="Write snapshots to this parameter topic.")] = None,
    to_snapshot: Annotated[
        str | None, Option(help="Rebuild BUCKET:EPOCH.OFFSET from the samples and compare every bit.")
    ] = None,
    live: Annotated[
        str | None, Option(help="Compare with: kafka, an archive or a directory of snapshots; else the source.")
    ] = None,
    candidates: Annotated[
        FileText | None, Option(help="JSON lines as of `glimpse rank`, to compare top lists on.")
    ] = None,
    truncated: Annotated[
        bool, Option("--truncated", help="Learn from samples although their beginning is gone.")
    ] = False,
    readers: Annotated[int, Option(min=1, help="Processes; the outcome is the same with any number.")] = 1,
    config: Config = None,
) -> None:
    """Relearn from logged topics: events or samples, with the deployed parameters or others.

    Reads by assignment, so no live group is touched. Prints a line per bucket (name, algorithm, lists, SHA-256 of its
    state), then what was read and how fast, then how far each model is from the live one: what is the same (A and b)
    and what is not (α, λ, θ, ranks). With other parameters it estimates what would have been earned on the newest
    lists, by UBM-IPS, or by a linear model where vectors tell of users; see: glimpse evaluate --help.
    """
    from streams.logs import Range, parse_mark
    from streams.logs.job import open_source
    from streams.rank import read_candidates
    from streams.replay import check_beginning, compare, deployed, plan_of, snapshots_in
    from streams.replay.job import check_newer, on_topic, snapshots_of, write_directory, write_topic
    from streams.settings import read_examination

    times: dict[str, Any] = {"wait_s": wait, "lateness_s": lateness}
    settings = replace(settings_of(config, buckets=True), **without_none(times))
    logs = open_source(source, settings)
    if to_snapshot is not None:
        rebuild(logs, settings, to_snapshot)
        return
    settings, warnings = deployed(logs, settings)
    note(*warnings)
    asked: dict[str, Any] = {"algorithm": algorithm, "alpha": alpha, "ridge": ridge, "epoch": epoch}
    asked |= {"context_scale": context_scale, "reward_scale": reward_scale}
    asked["examination"] = None if examination is None else read_examination(examination)
    plan, notes = plan_of(
        logs,
        settings,
        samples=samples,
        only=bucket or (),
        within=Range([parse_mark(text) for text in start or ()], [parse_mark(text) for text in stop or ()]),
        finish=not keep_open,
        changes=without_none(asked),
    )
    note(*notes)
    if not truncated:
        check_beginning(plan)
    shown = None if candidates is None else read_candidates(candidates)
    if out is not None:
        check_newer(plan, snapshots_in(out, plan.buckets, skip_corrupt=True))
    if to_topic is not None:
        check_newer(plan, on_topic(settings, to_topic))
    compared = live_of(live, logs, settings, plan.buckets)
    done = run(plan, out, readers)
    note(*done.notes)
    print_replayed(done)
    snapshots = snapshots_of(done, now_ms=int(time.time() * 1000))
    if out is not None:
        write_directory(out, snapshots)
    if to_topic is not None:
        note(f"writes to Kafka at {settings.kafka}: {to_topic}")
        write_topic(settings, to_topic, snapshots)
    for comparison in compare(done.models, compared, candidates=shown):
        print(comparison)
    if any(value is not None for name, value in asked.items() if name != "epoch"):
        for line in earned(logs, settings, snapshots, compared):
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
    from streams.replay.job import Interrupted
    from streams.replay.job import replay as work

    progress = bar()
    say = task_of(progress, " and ".join(plan.topics), total=plan.total())
    [task] = progress.tasks
    try:
        with progress:
            return work(plan, out=out, readers=readers, say=say)
    except Interrupted:
        again = f"the same command goes on from there: {out}" if out else "with --out it could go on from there"
        note(f"glimpse: stopped after {int(task.completed):,} of {int(task.total or 0):,} records; {again}")
        raise Exit(130) from None
    except (ValueError, ConnectionError):  # of the logs; said below, but first how far it was
        note(f"glimpse: {int(task.completed):,} of {int(task.total or 0):,} records were replayed")
        raise


def print_replayed(done: Replayed) -> None:
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
        snapshots = live_snapshots(open_source(live, settings))
    else:
        snapshots = snapshots_in(Path(live), buckets)
    if not snapshots.keys() & buckets.keys():
        raise ReplayError(
            f"--live {live} has no snapshot of {', '.join(buckets)}; wanted kafka, kafka://host:port, an archive with "
            "its parameters topic, or a directory of snapshots"
        )
    return snapshots


def rebuild(logs: LogSource, settings: Settings, name: str) -> None:
    """Print whether the log gives a snapshot again."""
    from streams.replay.job import Wanted
    from streams.replay.job import rebuild as work

    with bar() as progress:
        done = work(logs, settings, Wanted.parse(name), say=task_of(progress, "samples"))
    model = done.model
    print(f"{done.name}\t{model.name}\t{model.rounds} lists\t{model.sha256()}")
    if done.published is None:
        print("the parameters topic no longer has this snapshot (compaction keeps the newest): nothing to compare with")
    else:
        print("A and b are the same, bit by bit, as in the published snapshot")
