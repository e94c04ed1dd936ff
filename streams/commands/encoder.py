"""glimpse encoder: what makes short contexts of many features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.commands.options import CommandError, note

commands = typer.Typer()
encoder = typer.Typer(no_args_is_help=True, help="Encoders: short contexts made of many features.")
commands.add_typer(encoder, name="encoder")


@encoder.callback()
def encoders() -> None:
    """Keep the name of the group before that of its command."""


@encoder.command()
def train(
    catalogue: Annotated[Path, typer.Argument(help="Items and users with features, as JSON lines or .npz.")],
    out: Annotated[Path, typer.Option(help="Where the encoder goes.")] = Path("encoder.bin"),
    pairs: Annotated[int, typer.Option(min=100, help="Pairs of a user and an item to learn from.")] = 60_000,
    epochs: Annotated[int, typer.Option(min=1, help="How often to go through them.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and versions give the same encoder.")] = 0,
) -> None:
    """Train the paper's denoising autoencoder on a catalogue's users and items: contexts of ten numbers.

    Serve with it: a catalogue whose recipe is ["code"], glimpse serve --encoder FILE, and its hash for the
    buckets, which carry it into their snapshots.
    """
    import numpy as np
    from rich.progress import Progress

    from streams.offline import train_on_pairs
    from streams.rank import Recipe, read_catalogue

    held = read_catalogue(catalogue, recipe=Recipe(["item"]))
    if not held.users:
        raise CommandError(f"{catalogue} names no users; an encoder learns from pairs of a user and an item")
    users = np.array([held.user(user) for user in held.user_ids])
    with Progress() as progress:
        task = progress.add_task("training", total=epochs)
        trained = train_on_pairs(
            held.held[:, 1:],
            users,
            seed=seed,
            pairs=pairs,
            epochs=epochs,
            on_epoch=lambda error: progress.update(task, advance=1, description=f"training, MSE {error:.5f}"),
        )
    out.write_bytes(trained.to_bytes())
    print(f'dim = {trained.code}\ncontexts_sha256 = "{trained.sha256()}"')
    note(f'next: these lines for each bucket, the recipe ["code"] in the catalogue, glimpse serve --encoder {out}')
