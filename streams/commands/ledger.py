"""glimpse ledger and unlearn: commands that look after what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streams.commands.options import CommandError, Config, note, with_buckets, writes_to

if TYPE_CHECKING:
    from streams.ledger import Audit

commands = typer.Typer()


@commands.command()
def ledger(
    source: Annotated[
        str, typer.Argument(help="kafka (as set), kafka://host:port, or the directory of an archive.")
    ] = "kafka",
    config: Config = None,
) -> None:
    """Balance the events of each partition against what became of them, to the rounds of each bucket's snapshot.

    Exit code 1 when something does not add up, or when samples are in no snapshot 10 s after they were counted.
    Counted is what the join has read and committed; what waits for it is told by glimpse lag.
    """
    from streams.ledger.job import audit
    from streams.logs.job import open_source

    settings = with_buckets(config)
    result = audit(open_source(source, settings), settings)
    shown(result)
    for text in result.notes:
        note(text)
    for problem in result.problems:
        note(f"wrong: {problem}")
    if result.problems:
        raise typer.Exit(1)


def shown(result: Audit) -> None:
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
    bucket: Annotated[str, typer.Option(help="Whose lists.")],
    start: Annotated[str | None, typer.Option("--from", help="Lists shown from this time on (ISO, UTC)…")] = None,
    stop: Annotated[str | None, typer.Option("--to", help="…and before this one.")] = None,
    impression: Annotated[list[str] | None, typer.Option(help="Only the list of this id; may be repeated.")] = None,
    session: Annotated[list[str] | None, typer.Option(help="Only lists of this session; may be repeated.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="Only lists of this user; may be repeated.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this only the effect is shown.")] = False,
    config: Config = None,
) -> None:
    """Take back what a bucket learned from some lists: of a range of time, of an id, a session or a user.

    For a bot wave, a broken logger, or a user who wants to be forgotten. Samples know times and ids; whose a list was
    is looked up among the impressions, and lists that those no longer hold are refused, not passed over.

    The lists go to the samples topic again with sign −1, so the sums are, bit by bit, as if they had never been. Lists
    that a late click could still correct are left alone, and said. Doing it twice changes nothing further.
    """
    from contextlib import closing

    from streams.ledger import EVER_MS, Selection, batches_of, effect
    from streams.ledger.job import plan_on
    from streams.ledger.job import unlearn as work
    from streams.logs import parse_time
    from streams.logs.job import KafkaSource
    from streams.parameters import restore_model
    from streams.replay import live_snapshots

    settings = with_buckets(config)
    if not (start and stop) and not (impression or session or user):
        raise CommandError("say which lists: --from and --to, --impression, --session or --user")
    selection = Selection(
        -EVER_MS if start is None else parse_time(start),
        EVER_MS if stop is None else parse_time(stop),
        frozenset(impression or ()),
        frozenset(session or ()),
        frozenset(user or ()),
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
