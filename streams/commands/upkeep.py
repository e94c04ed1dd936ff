"""glimpse rollout, ledger, unlearn and drill: change, balance, take back and put to the test what was learned."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from typer import Exit, Option, Typer

from streams.commands.options import (
    CommandError,
    Config,
    Source,
    bar,
    note,
    settings_of,
    task_of,
    without_none,
    writes_to,
)

if TYPE_CHECKING:
    from streams.ledger import Audit
    from streams.rollout import RolloutPlan
    from streams.rollout.job import Relearned

commands = Typer()


@commands.command()
def rollout(
    bucket: Annotated[str, Option(help="Whose parameters.")],
    examination: Annotated[Path | None, Option(help="Another examination table, as `fit` writes it.")] = None,
    algorithm: Annotated[str | None, Option(help="Another algorithm.")] = None,
    alpha: Annotated[float | None, Option(help="Another width of the bound.")] = None,
    ridge: Annotated[str | None, Option(help="Another λ, or `safe`.")] = None,
    yes: Annotated[bool, Option("--yes", help="Do it; else it is only shown what it would do.")] = False,
    back: Annotated[bool, Option("--back", help="Go back, now, to what was learned with before.")] = False,
    truncated: Annotated[
        bool, Option("--truncated", help="Also from a samples log that has lost its beginning.")
    ] = False,
    config: Config = None,
) -> None:
    """Learn a bucket with other parameters beside the one that serves, and switch when it has caught up.

    Without --yes nothing is written: the bucket is relearned from the samples here, and shown are its click rate by
    UBM-IPS, θ and the ranks that change. With --yes the parameters, table included, are written to Kafka and in force
    over glimpse.toml: running workers learn a new epoch from the beginning of the samples, while the old one serves and
    learns on, and rankers get it once it knows as much. --back is the same with the parameters of before: versions only
    grow. Without any parameter, those of glimpse.toml are rolled out. Watch it: glimpse show.
    """
    from streams.rollout import back as going_back
    from streams.rollout import onward
    from streams.rollout.job import check_log, relearn, serving_of, write
    from streams.settings import read_examination

    settings = settings_of(config, buckets=True)
    asked: dict[str, Any] = {"algorithm": algorithm, "alpha": alpha, "ridge": _ridge(ridge)}
    asked["examination"] = None if examination is None else read_examination(examination)
    changes = without_none(asked)
    if back and changes:
        raise CommandError(f"--back takes the parameters of before: leave out --{next(iter(changes))}")
    serving = serving_of(settings, bucket)
    plan = going_back(serving) if back else onward(serving, changes)
    notes = check_log(settings, plan, truncated=truncated)
    print("\n".join([*plan_lines(plan), *notes]))
    if not yes and not back:
        with bar() as progress:
            done = relearn(settings, plan, say=task_of(progress, "samples"))
        print("\n".join(effect_lines(plan, done)))
        print("nothing was written; the same with --yes rolls it out")
        return
    writes_to(settings, ["parameters"])
    write(settings, plan.record(truncated=truncated, now_ms=round(time.time() * 1000)))
    note(
        f"epoch {plan.after.epoch} of {bucket} is learned by the running workers, and serves when it has caught up; "
        f"until then epoch {plan.serving.epoch} does. Watch it: glimpse show {bucket}"
    )


def _ridge(given: str | None) -> float | str | None:
    """Return λ as a bucket takes it; what is no number is judged by the bucket, as in glimpse.toml."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def plan_lines(plan: RolloutPlan) -> list[str]:
    """Return what changes, for people."""
    lines = [f"bucket {plan.after.name}: epoch {plan.serving.epoch} serves, {plan.after.epoch} would"]
    changes = plan.changes()
    lines += [f"  {name:<10}{ours} → {theirs}" for name, ours, theirs in changes]
    return lines if changes else [*lines, "  the same parameters as those that serve"]


def effect_lines(plan: RolloutPlan, done: Relearned) -> list[str]:
    """Return what the new parameters would do, for people."""
    from streams.parameters import name_of

    effect, model = done.effect, done.model
    of_lists = f"the newest {effect.lists:,} lists"
    lines = [
        f"relearned   {model.rounds:,} lists, sha256 {model.sha256()}",
        f"serves now  {plan.serving.rounds:,} lists, sha256 {plan.serving.sha256} ({name_of(plan.serving)})",
        f"clicks      per list by UBM-IPS with {done.table}, {of_lists} each in the model's order:",
        f"            {effect.serving.value:.4f} now ({effect.serving.low:.4f} to {effect.serving.high:.4f}), "
        f"{effect.new.value:.4f} new ({effect.new.low:.4f} to {effect.new.high:.4f}); as shown {effect.earned:.4f}",
        f"ranks       {effect.reordered:.1%} of these lists would be in another order, {effect.other_first:.1%} have "
        "another first",
    ]
    if effect.cosine is not None and effect.moved is not None:
        most = ", ".join(f"θ[{row}] {before:.4g} → {after:.4g}" for row, before, after in effect.most_moved)
        lines.append(f"θ           cosine {effect.cosine:.4f}, moved by {effect.moved:.1%} of its length; {most}")
    return [
        *lines,
        "            The rates compare two orders of the items that were shown, by clicks that both have learned from:",
        "            what will be earned is another question (glimpse evaluate, glimpse compare).",
    ]


@commands.command()
def ledger(source: Source = "kafka", config: Config = None) -> None:
    """Balance the events of each partition against what became of them, to the rounds of each bucket's snapshot.

    Exit code 1 when something does not add up, or when samples are in no snapshot 10 s after they were counted.
    Counted is what the join has read and committed; what waits for it is told by glimpse lag.
    """
    from streams.ledger.job import audit
    from streams.logs.job import open_source

    settings = settings_of(config, buckets=True)
    result = audit(open_source(source, settings), settings)
    print_balance(result)
    note(*result.notes, *(f"wrong: {problem}" for problem in result.problems))
    if result.problems:
        raise Exit(1)


def print_balance(result: Audit) -> None:
    """Print the balance, a line per partition and per bucket of it."""
    for number, book in sorted(result.ledgers.items()):
        print(
            f"partition {number}: {book.impressions} impressions = {book.lists} lists + {book.open} open + "
            f"{book.duplicates} duplicates + {book.too_late} too late + {book.dead_impressions} dead letters"
        )
        print(
            f"partition {number}: {book.clicks} clicks = {book.used} used + {book.repeated} repeated + "
            f"{book.waiting} waiting + {book.late} late + {book.dead_clicks} dead letters"
        )
        for (partition, bucket), count in sorted(result.written.samples.items()):
            if partition == number:
                net = count.lists - count.taken_back
                print(
                    f"partition {number}, {bucket}: {count.lists} lists in samples, {count.corrections} corrected, "
                    f"{count.taken_back} taken back, {net} in the net"
                )
    for learned in result.learned:
        print(learned)


@commands.command()
def unlearn(
    bucket: Annotated[str, Option(help="Whose lists.")],
    start: Annotated[str | None, Option("--from", help="Lists shown from this time on (ISO, UTC)…")] = None,
    stop: Annotated[str | None, Option("--to", help="…and before this one.")] = None,
    impression: Annotated[list[str] | None, Option(help="Only the list of this id; may be repeated.")] = None,
    session: Annotated[list[str] | None, Option(help="Only lists of this session; may be repeated.")] = None,
    user: Annotated[list[str] | None, Option(help="Only lists of this user; may be repeated.")] = None,
    yes: Annotated[bool, Option("--yes", help="Do it; without this only the effect is shown.")] = False,
    config: Config = None,
) -> None:
    """Take back what a bucket learned from some lists: of a range of time, of an id, a session or a user.

    For a bot wave, a broken logger, or a user who wants to be forgotten. Samples know times and ids; whose a list was
    is looked up among the impressions, and lists that those no longer hold are refused, not passed over.

    The lists go to the samples topic again with sign −1, so the sums are, bit by bit, as if they had never been. Lists
    that a late click could still correct are left alone, and said. Doing it twice changes nothing further.
    """
    from streams.ledger import EVER_MS, Selection, batches_of, effect
    from streams.ledger.job import plan_on
    from streams.ledger.job import unlearn as work
    from streams.logs import parse_time
    from streams.logs.job import KafkaSource
    from streams.parameters import restore_model
    from streams.replay import live_snapshots

    settings = settings_of(config, buckets=True)
    if not (start and stop) and not (impression or session or user):
        raise CommandError("say which lists: --from and --to, --impression, --session or --user")
    selection = Selection(
        -EVER_MS if start is None else parse_time(start),
        EVER_MS if stop is None else parse_time(stop),
        *(frozenset(chosen or ()) for chosen in (impression, session, user)),
    )
    with closing(KafkaSource(settings)) as source:
        plan = plan_on(source, settings, bucket=bucket, selection=selection)
        print(plan)
        live = live_snapshots(source).get(bucket)
        if live is not None and plan.lists:
            print(effect(restore_model(settings.buckets[bucket], live), batches_of(source, plan)))
    if not yes:
        note("nothing was changed; with --yes it will be")
        return
    writes_to(settings, ["samples"])
    done = work(settings, bucket=bucket, selection=selection)
    print(f"{len(done.lists)} lists were taken back; `glimpse learn` takes them out of the model")


@commands.command()
def drill(
    faults: Annotated[int, Option(min=1, max=1000, help="How many; every kind once before any comes again.")] = 8,
    seconds: Annotated[float, Option(min=1, max=3600, help="Of load for each fault.")] = 6.0,
    rate: Annotated[float, Option(min=1, max=5000, help="Lists a second.")] = 200.0,
    workers: Annotated[int, Option(min=1, max=8, help="Join processes, and as many that learn.")] = 2,
    seed: Annotated[int, Option(min=0, help="The same seed draws the same faults and the same load.")] = 1,
    kind: Annotated[list[str] | None, Option(help="Only these faults, as in --kind kill-join.")] = None,
    kafka: Annotated[
        bool, Option("--kafka", help="On Kafka and Redis as set, in topics of its own; breaks only workers.")
    ] = False,
    config: Config = None,
) -> None:
    """Break it on purpose, and see whether every bit is right afterwards; exit code 1 when one is not.

    A Kafka and a Redis of its own are started in a temporary folder. Simulated lists are shown to the buckets of
    glimpse.toml (or to three of its own); workers are killed and frozen, the servers stopped, killed and emptied. After
    each fault everything must be learned exactly as in a run without faults, on Kafka and in Redis.
    """
    from streams.drill import Outcome, plan_faults, possible_faults, table_of
    from streams.drill.job import own_servers, run_drill, servers_as_set
    from streams.settings import TOPICS

    settings = settings_of(config)
    plan = plan_faults(possible_faults(kind, own_servers=not kafka), faults, load_s=seconds, seed=seed)
    folder = Path(tempfile.mkdtemp(prefix="glimpse-drill-"))
    outcomes: list[Outcome] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended then, too
    try:
        with servers_as_set(settings) if kafka else own_servers(settings, folder) as servers:
            writes_to(servers.settings, TOPICS, online=True)
            playing = run_drill(servers, plan, folder, load_s=seconds, rate=rate, workers=workers, seed=seed, say=note)
            outcomes.extend(playing)
    finally:  # also what was found until Ctrl-C
        Console(width=None if Console().is_terminal else 200).print(table_of(outcomes))
        if len(outcomes) < faults or not all(outcome.good for outcome in outcomes):
            note(f"what the workers and servers said is in {folder}")
    if not all(outcome.good for outcome in outcomes):
        raise Exit(1)
    shutil.rmtree(folder)
