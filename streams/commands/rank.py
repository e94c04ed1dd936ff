"""glimpse rank: candidates in the order of a bucket's newest snapshot."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.commands.options import CommandError, Config

commands = typer.Typer()


@commands.command()
def rank(
    bucket: Annotated[str, typer.Argument(help="Whose model.")],
    candidates: Annotated[
        typer.FileText, typer.Argument(help='JSON lines {"item": 7, "context": [0.5, 0.1]}, - for stdin.')
    ],
    size: Annotated[int, typer.Option(min=1, help="How many to print.")] = 12,
    source: Annotated[
        str | None, typer.Option(help="kafka, redis, a URL of one, or a directory; else redis if set, else kafka.")
    ] = None,
    config: Config = None,
) -> None:
    """Order candidates with a bucket's newest snapshot, best first: item and estimated attractiveness."""
    from streams.rank import read_candidates
    from streams.rank.job import Ranker
    from streams.settings import load

    settings = load(config)
    found = read_candidates(candidates)
    source = source or ("redis" if settings.redis else "kafka")
    with Ranker.from_url(source, bucket=bucket, settings=settings, refresh_s=None) as ranker:
        try:
            rows = ranker.rank(found.contexts, size=size, items=found.items)
            scores = ranker.predict(found.contexts, items=found.items)
        except ValueError as error:  # the contexts do not fit the model
            raise CommandError(f"{candidates.name}: {error}") from error
    for row in rows:
        print(found.items[row], f"{scores[row]:.6f}")
