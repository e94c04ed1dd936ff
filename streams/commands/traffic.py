"""glimpse traffic: simulated users against the ranking service."""

from __future__ import annotations

import asyncio
import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import note

commands = typer.Typer()


class Browse(StrEnum):
    """How users look down a list."""

    ubm = "ubm"
    pbm = "pbm"
    cm = "cm"
    dcm = "dcm"


@commands.command()
def traffic(
    catalogue: Annotated[
        Path, typer.Option(help="What the service holds; a made-up shop is written here if there is none.")
    ] = Path("shop.npz"),
    encoder: Annotated[Path | None, typer.Option(help='The service\'s encoder, for the recipe ["code"].')] = None,
    url: Annotated[str, typer.Option(help="Where glimpse serve answers.")] = "http://127.0.0.1:6069",
    rate: Annotated[float, typer.Option(min=0.01, max=1e5, help="Users a second.")] = 20.0,
    seconds: Annotated[float, typer.Option(min=0, help="How long users come; 0: until Ctrl-C.")] = 60.0,
    lists: Annotated[float, typer.Option(min=1, max=100, help="Lists a user asks for, in the mean.")] = 1.5,
    think: Annotated[float, typer.Option(min=0, help="Seconds between a user's lists, in the mean.")] = 3.0,
    delay: Annotated[float, typer.Option(min=0, help="Seconds until a click, in the mean.")] = 2.0,
    browse: Annotated[Browse, typer.Option(help="How users look down a list.")] = Browse.ubm,
    drift: Annotated[float, typer.Option(help="Degrees a minute by which the users' taste turns.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same shop and the same taste.")] = 1,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for the service to be up.")] = 60.0,
    token_file: Annotated[Path | None, typer.Option(help="A file with the service's token.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the curves of each bucket's click rate here, as HTML.")
    ] = None,
) -> None:
    """Send simulated users to `glimpse serve`: they ask for lists, look, click late and twice, and think.

    Each is attracted by an item with a chance that follows from its context and a taste that nobody tells the learners.
    Prints how it goes every 10 s, and what each bucket earned in the end. Once:

    glimpse traffic --catalogue shop.npz; glimpse serve --catalogue shop.npz beside glimpse worker.
    """
    from rich.console import Console

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
