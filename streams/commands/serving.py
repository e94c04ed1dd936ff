"""glimpse produce, rank, catalogue, serve and traffic: events and lists, from simulated users or for real ones."""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from typer import Argument, Exit, FileText, Option, Typer

from streams.commands.options import CommandError, Config, bar, note, settings_of, writes_to

commands = Typer()


@commands.command()
def produce(
    file: Annotated[
        FileText | None, Argument(help="JSON lines of events, - for stdin; else they are simulated.")
    ] = None,
    lists: Annotated[int, Option(min=1, help="How many lists to simulate.")] = 1000,
    rate: Annotated[float | None, Option(help="Events a second; as fast as possible if not said.")] = None,
    seed: Annotated[int, Option(min=0, help="The same seed simulates the same users.")] = 0,
    candidates: Annotated[
        int, Option(min=0, max=1000, help="That each simulated list says it was chosen from, for evaluate.")
    ] = 0,
    restamp: Annotated[bool, Option("--restamp", help="Date recorded events now, so that they are not late.")] = False,
    yes: Annotated[bool, Option("--yes", help="Write also among events that other programs have written.")] = False,
    config: Config = None,
) -> None:
    """Write impressions and clicks to the topics, simulated or from a file.

    Topics whose newest events come from another program, a service of yours perhaps, are left alone without --yes.
    A line of the file: {"type": "click", "impression_id": "i1", "session_id": "s1", "position": 2, "clicked_at_ms": 9}
    Metarank's ranking and interaction events are understood, too.
    """
    from streams.broker import stamps_of_any_time
    from streams.events import MetarankEvents, read_events
    from streams.events.job import foreign_event, produce_events, simulated_events
    from streams.settings import EVENTS
    from streams.split import Split

    settings = settings_of(config, buckets=True)
    writes_to(settings, EVENTS)
    if not yes and (event := foreign_event(settings)) is not None:  # what is simulated there would be learned as real
        raise CommandError(
            f"{event} of Kafka at {settings.kafka} is an event that glimpse produce has not written; "
            "take another broker or topic_prefix, or say --yes to write among them"
        )
    try:
        if file is None:
            simulated = simulated_events(settings, lists, seed=seed, candidates=candidates)
            done = produce_events(settings, simulated, rate=rate, progress=bar())
        else:
            split = Split.of(settings)
            metarank = MetarankEvents(lambda user: settings.buckets[split.bucket_of(user)])
            events = read_events(file, name=f"{file.name} line", foreign=metarank.event_of)
            with nullcontext() if restamp else stamps_of_any_time(settings):
                done = produce_events(settings, events, rate=rate, restamp=restamp, progress=bar())
    except ValueError as error:  # of a line, or of an option
        raise CommandError(str(error)) from error
    note(f"{done.impressions} impressions and {done.clicks} clicks in {done.seconds:.1f} s")


@commands.command()
def rank(
    bucket: Annotated[str, Argument(help="Whose model.")],
    candidates: Annotated[FileText, Argument(help='JSON lines {"item": 7, "context": [0.5, 0.1]}, - for stdin.')],
    size: Annotated[int, Option(min=1, help="How many to print.")] = 12,
    source: Annotated[
        str | None,
        Option(help="A store's name, its URL, or a directory. Default: the online store if set, else kafka."),
    ] = None,
    config: Config = None,
) -> None:
    """Order candidates with a bucket's newest snapshot, best first: item and estimated attractiveness."""
    from streams.parameters.job import serving_store
    from streams.rank import read_candidates
    from streams.rank.job import Ranker

    settings = settings_of(config)
    choice = read_candidates(candidates)
    source = source or serving_store(settings)
    with Ranker.from_url(source, bucket=bucket, settings=settings, refresh_s=None) as ranker:
        try:
            rows = ranker.rank(choice.contexts, size=size, items=choice.items)
            scores = ranker.predict(choice.contexts, items=choice.items)
        except ValueError as error:  # the contexts do not fit the model
            raise CommandError(f"{candidates.name}: {error}") from error
    for row in rows:
        print(choice.items[row], f"{scores[row]:.6f}")


@commands.command()
def catalogue(
    file: Annotated[Path, Argument(help="Items and users with features, as JSON lines or .npz.")],
    config: Config = None,
) -> None:
    """Publish a catalogue to Kafka, for every `glimpse serve --catalogue kafka`: what changed, all at once.

    A record is a line of the file. Its key is "item 7" for {"item": 7, "features": [0.5]}, "user u1" for {"user": "u1",
    …}, "recipe" for the recipe. Services may write theirs, too; one without a value takes its item or user out.
    """
    from streams.rank.job import publish_catalogue

    settings = settings_of(config)
    writes_to(settings, ["catalogue"])
    done = publish_catalogue(settings, file)
    note(f"{done.items} items and {done.users} users; {done.written} records written, {done.removed} taken out")


@commands.command()
def serve(
    catalogue: Annotated[
        Path | None,
        Option(
            help="Items and users with features: JSON lines, .npz, or kafka, the topic of glimpse catalogue; another "
            "one is taken over while it serves."
        ),
    ] = None,
    encoder: Annotated[Path | None, Option(help='A trained encoder, for a catalogue whose recipe is ["code"].')] = None,
    source: Annotated[
        str | None,
        Option(
            help="Snapshots: a store's name, its URL, or a directory. Default: the online store if set, else kafka."
        ),
    ] = None,
    log: Annotated[
        Literal["before", "after"],
        Option(help="Answer a list before or after Kafka has it: after is quick, before loses none."),
    ] = "after",
    deadline: Annotated[float, Option(min=0.01, help="Seconds for an answer; later ones are 503.")] = 2.0,
    host: Annotated[str, Option(help="Where to serve; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes any free one.")] = 6069,
    token_file: Annotated[
        Path | None, Option(help="A file with the token; else one is made when others can reach the service.")
    ] = None,
    config: Config = None,
) -> None:
    """Rank over HTTP with each bucket's newest snapshot, and log what was shown and clicked, until SIGTERM.

    POST /rank {"user": "u1"} answers a list of the catalogue's items; POST /click and /feedback take what users did.
    All is described at /openapi.json. It ranks on with the last good snapshot when Redis or Kafka is away.
    """
    from streams.broker import log_of_job
    from streams.rank.job import RankServer, rank_service
    from streams.rank.job import serve as run
    from streams.settings import EVENTS, read_secret
    from streams.web import is_loopback

    log_of_job()
    settings = settings_of(config, buckets=True)
    writes_to(settings, EVENTS)
    token = read_secret("--token-file", token_file) if token_file else None
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
        note(f"send Authorization: Bearer {token}")
    before = log == "before"
    service = rank_service(
        settings, source=source, catalogue=catalogue, encoder=encoder, log_first=before, deadline_s=deadline
    )
    raise Exit(run(RankServer(service, host=host, port=port, token=token), say=note))


@commands.command()
def traffic(
    catalogue: Annotated[
        Path, Option(help="What the service holds; a made-up shop is written here if there is none.")
    ] = Path("shop.npz"),
    encoder: Annotated[Path | None, Option(help='The service\'s encoder, for the recipe ["code"].')] = None,
    url: Annotated[str, Option(help="Where glimpse serve answers.")] = "http://127.0.0.1:6069",
    rate: Annotated[float, Option(min=0.01, max=1e5, help="Users a second.")] = 20.0,
    seconds: Annotated[float, Option(min=0, help="How long users come; 0: until Ctrl-C.")] = 60.0,
    lists: Annotated[float, Option(min=1, max=100, help="Lists a user asks for, in the mean.")] = 1.5,
    think: Annotated[float, Option(min=0, help="Seconds between a user's lists, in the mean.")] = 3.0,
    delay: Annotated[float, Option(min=0, help="Seconds until a click, in the mean.")] = 2.0,
    browse: Annotated[Literal["ubm", "pbm", "cm", "dcm"], Option(help="How users look down a list.")] = "ubm",
    drift: Annotated[float, Option(help="Degrees a minute by which the users' taste turns.")] = 0.0,
    seed: Annotated[int, Option(min=0, help="The same seed makes the same shop and the same taste.")] = 1,
    patience: Annotated[float, Option(min=0, help="Seconds to wait for the service to be up.")] = 60.0,
    token_file: Annotated[Path | None, Option(help="A file with the service's token.")] = None,
    out: Annotated[Path | None, Option(help="Write the curves of each bucket's click rate here, as HTML.")] = None,
) -> None:
    """Send simulated users to `glimpse serve`: they ask for lists, look, click late and twice, and think.

    Each is attracted by an item with a chance that follows from its context and a taste that nobody tells the learners.
    Prints how it goes every 10 s, and what each bucket earned in the end. Once:

    glimpse traffic --catalogue shop.npz; glimpse serve --catalogue shop.npz beside glimpse worker.
    """
    from streams.demo import Crowdedness, Storefront, Traffic, scores, table_of, write_curves, write_shop
    from streams.rank import read_catalogue, read_encoder
    from streams.settings import read_secret

    if not catalogue.exists():
        write_shop(catalogue, seed=seed)
        note(f"wrote a made-up shop; serve it: glimpse serve --catalogue {catalogue}")
    held = read_catalogue(catalogue, encoder=None if encoder is None else read_encoder(encoder))
    shop = Storefront(held, browse=browse, drift=drift, seed=seed)
    how = Crowdedness(rate, seconds or None, lists, think, delay, patience)
    token = read_secret("--token-file", token_file) if token_file else None

    async def play() -> Traffic:
        users = Traffic(url, shop, how, seed=seed, token=token)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, users.stopping.set)
        await users.run(note)
        return users

    users = asyncio.run(play())
    note(users.line())
    Console().print(table_of(scores(users.visits)))
    if out is not None:
        note(f"curves: {write_curves(out, users.visits)}")
