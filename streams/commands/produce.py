"""glimpse produce: events onto the topics."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from streams.commands.options import CommandError, Config, note, with_buckets, writes_to
from streams.commands.progress import bar

if TYPE_CHECKING:
    from streams.settings import Settings

commands = typer.Typer()


@commands.command()
def produce(
    file: Annotated[
        typer.FileText | None, typer.Argument(help="JSON lines of events, - for stdin; else they are simulated.")
    ] = None,
    lists: Annotated[int, typer.Option(min=1, help="How many lists to simulate.")] = 1000,
    rate: Annotated[float | None, typer.Option(help="Events a second; as fast as possible if not said.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed simulates the same users.")] = 0,
    candidates: Annotated[
        int, typer.Option(min=0, max=1000, help="That each simulated list says it was chosen from, for evaluate.")
    ] = 0,
    restamp: Annotated[
        bool, typer.Option("--restamp", help="Date recorded events now, so that they are not late.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Write also among events that other programs have written.")
    ] = False,
    config: Config = None,
) -> None:
    """Write impressions and clicks to the topics, simulated or from a file.

    Topics whose newest events come from another program, a service of yours perhaps, are left alone without --yes.
    A line of the file: {"type": "click", "impression_id": "i1", "session_id": "s1", "position": 2, "clicked_at_ms": 9}
    Metarank's ranking and interaction events are understood, too.
    """
    from rich.console import Console

    from streams.broker import stamps_of_any_time
    from streams.events import MetarankEvents, read_events
    from streams.events.job import produce_events, simulated_events
    from streams.settings import EVENTS
    from streams.split import Split

    settings = with_buckets(config)
    writes_to(settings, EVENTS)
    if not yes:
        refuse_foreign(settings)
    console = Console(stderr=True)
    try:
        if file is None:
            simulated = simulated_events(settings, lists, seed=seed, candidates=candidates)
            done = produce_events(settings, simulated, rate=rate, progress=bar(console))
        else:
            split = Split.of(settings)
            metarank = MetarankEvents(lambda user: settings.buckets[split.bucket_of(user)])
            events = read_events(file, name=f"{file.name} line", foreign=metarank.event_of)
            with nullcontext() if restamp else stamps_of_any_time(settings):
                done = produce_events(settings, events, rate=rate, restamp=restamp, progress=bar(console))
    except ValueError as error:  # of a line, or of an option
        raise CommandError(str(error)) from error
    note(f"{done.impressions} impressions and {done.clicks} clicks in {done.seconds:.1f} s")


def refuse_foreign(settings: Settings) -> None:
    """Refuse topics that hold somebody else's events: what is simulated there would be learned as real."""
    from streams.events.job import foreign_event

    place = foreign_event(settings)
    if place is not None:
        raise CommandError(
            f"{place} of Kafka at {settings.kafka} is an event that glimpse produce has not written; "
            "take another broker or topic_prefix, or say --yes to write among them"
        )
