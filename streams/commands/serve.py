"""glimpse serve: the ranking service."""

from __future__ import annotations

import secrets
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note, with_buckets, writes_to

commands = typer.Typer()


class Logged(StrEnum):
    """When a list is logged."""

    before = "before"
    after = "after"


@commands.command()
def serve(
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Items and users with features: JSON lines, .npz, or kafka, the topic of glimpse catalogue; another "
            "one is taken over while it serves."
        ),
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(help='A trained encoder, for a catalogue whose recipe is ["code"].')
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Snapshots: kafka, redis, a URL of one, or a directory; else redis if set, else kafka."),
    ] = None,
    log: Annotated[
        Logged, typer.Option(help="Answer a list before or after Kafka has it: after is quick, before loses none.")
    ] = Logged.after,
    deadline: Annotated[float, typer.Option(min=0.01, help="Seconds for an answer; later ones are 503.")] = 2.0,
    host: Annotated[str, typer.Option(help="Where to serve; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 6069,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token; else one is made when others can reach the service.")
    ] = None,
    config: Config = None,
) -> None:
    """Rank over HTTP with each bucket's newest snapshot, and log what was shown and clicked, until SIGTERM.

    POST /rank {"user": "u1"} answers a list of the catalogue's items; POST /click and /feedback take what users did.
    All is described at /openapi.json. It ranks on with the last good snapshot when Redis or Kafka is away.
    """
    from streams.broker import log_of_job
    from streams.rank.job import RankServer, ServiceOptions, rank_service
    from streams.rank.job import serve as run
    from streams.settings import EVENTS, read_secret
    from streams.web import is_loopback

    log_of_job()
    settings = with_buckets(config)
    writes_to(settings, EVENTS)
    token = read_secret("--token-file", token_file) if token_file else None
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
        note(f"send Authorization: Bearer {token}")
    options = ServiceOptions(log_first=log is Logged.before, deadline_s=deadline)
    service = rank_service(settings, source=source, catalogue=catalogue, encoder=encoder, options=options)
    raise typer.Exit(run(RankServer(service, host=host, port=port, token=token), say=note))
