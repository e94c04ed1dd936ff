"""glimpse dashboard: the command, thin around the page."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import Config, note

commands = typer.Typer()


@commands.command()
def dashboard(
    archive: Annotated[
        Path | None, typer.Argument(help="The directory of an archive; else Kafka, as set, is shown.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to serve; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 6068,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token; else one is made when others can reach the page.")
    ] = None,
    config: Config = None,
) -> None:
    """Serve a live page: lag, click rates, examination, delays, snapshots, dead letters, freshness.

    The address that is printed has the token that was made; TOKEN stands for one that came from --token-file.
    It only reads, beside whatever runs or does not run, and goes on by itself when Kafka was away.
    """
    from streams.dashboard.job import of_archive, of_kafka, serve
    from streams.settings import load, read_secret
    from streams.web import is_loopback

    token = read_secret("--token-file", token_file) if token_file else None
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    settings = load(config)
    if archive is None:
        page = of_kafka(settings, host=host, port=port, token=token)
    else:
        page = of_archive(settings, archive, host=host, port=port, token=token)
    secret = token if token_file else None  # one that was made here is shown once, or nobody could come in
    raise typer.Exit(serve(page, say=lambda text: note(text.replace(secret, "TOKEN") if secret else text)))
