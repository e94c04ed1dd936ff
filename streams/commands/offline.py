"""glimpse fit, evaluate and encoder: commands on click logs and catalogues."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.progress import Progress
from typer import Argument, BadParameter, Option, Typer

from streams.commands.options import CommandError, Config, note, settings_of, time_of

if TYPE_CHECKING:
    from schemas.records import Snapshot
    from streams.offline import Logs

commands = Typer()


LogsArgument = Annotated[
    str,
    Argument(
        help="kafka (as set), kafka://host:port, the directory of an archive or of an embedded runner, or a file of "
        'JSON lines {"query": "q", "items": [7, 8], "clicks": [0, 1]}, plain or gzip.'
    ),
]
Events = Annotated[
    bool, Option("--events/--samples", help="Join the raw events of Glimpse's logs again, or take its samples.")
]
From = Annotated[str | None, Option("--from", help="Lists of Glimpse's logs shown from this time on (ISO, UTC)…")]
To = Annotated[str | None, Option("--to", help="…and before this one.")]
Truncated = Annotated[
    bool, Option("--truncated", help="Take samples of Glimpse's logs although their beginning is gone.")
]


def lists_at(
    address: str,
    events: bool,
    buckets: list[str] | None,
    start: str | None,
    stop: str | None,
    *,
    truncated: bool,
    config: Path | None,
    candidates: bool = False,
) -> Logs:
    """Return the lists of a file, or of what Glimpse has logged; what to know of them is noted."""
    from streams.logs.job import open_source
    from streams.offline import ListChoice, read_logs, read_own_logs

    if address != "kafka" and not address.startswith("kafka://") and not Path(address).is_dir():
        if events or buckets or start or stop or truncated:
            raise CommandError(
                f"a file has all its lists: --events, a bucket, --from, --to and --truncated are not for {address}"
            )
        return read_logs(Path(address))
    choice = ListChoice(
        events=events,
        buckets=tuple(buckets or ()),
        from_ms=time_of(start),
        to_ms=time_of(stop),
        truncated=truncated,
        candidates=candidates,
    )
    settings = settings_of(config, buckets=events)
    with closing(open_source(address, settings)) as source:
        logs, notes = read_own_logs(source, settings, choice)
    note(*notes)
    return logs


def policy_at(address: str, bucket: str | None, config: Path | None) -> Path | Snapshot:
    """Return a path as it is, or the newest snapshot that is served at an address."""
    from streams.parameters import SnapshotMissing
    from streams.parameters.job import STORES, open_parameters

    if address not in {store.name for store in STORES if store.name} and "://" not in address:
        return Path(address)
    with closing(open_parameters(address, settings_of(config))) as served:
        there = served.buckets()
        if bucket is None and len(there) != 1:
            raise SnapshotMissing(
                f"{address} has models of {', '.join(there) or 'no bucket'}; say which: --bucket NAME"
            )
        name = bucket or there[0]
        snapshot = served.newest(name)
        if snapshot is None:
            raise SnapshotMissing(f"no model under {served.where(name)}; there are models of: {', '.join(there)}")
        return snapshot


def click_model(name: str) -> str:
    """Return the name of a click model, or say which there are."""
    from learner.click_models import CLICK_MODELS

    if name not in CLICK_MODELS:
        raise BadParameter(f"{name!r} is none of {', '.join(CLICK_MODELS)}")
    return name


@commands.command()
def fit(
    logs: LogsArgument,
    model: Annotated[
        str, Option(parser=click_model, help="Click model whose table to write; all are compared and listed.")
    ] = "ubm",
    out: Annotated[Path | None, Option(help="The table's JSON file, as glimpse.toml names it.")] = None,
    held_out: Annotated[
        Path | None, Option(help="Lists to judge on; else every fifth session of LOGS, or list if it has none.")
    ] = None,
    picture: Annotated[Path | None, Option(help="Write the heat map as an SVG file too.")] = None,
    bucket: Annotated[list[str] | None, Option(help="Only lists of this bucket; may be repeated.")] = None,
    events: Events = False,
    start: From = None,
    stop: To = None,
    truncated: Truncated = False,
    config: Config = None,
) -> None:
    """Learn from logged lists how users browse: the examination table, and which click model fits best.

    Clicks tell w only up to a factor. By convention the largest well-observed cell of a written table is 1; the factor
    that was taken out is said, and loading a table never rescales it.
    """
    from streams.offline import read_logs, run_fit

    lists = lists_at(logs, events, bucket, start, stop, truncated=truncated, config=config)
    others = None if held_out is None else read_logs(held_out)
    run_fit(lists, model=model, out=out, held_out=others, picture=picture, console=Console())


@commands.command()
def evaluate(
    logs: LogsArgument,
    policy: Annotated[str, Option(help="A snapshot file, a directory of them, or a store's name or URL.")],
    estimator: Annotated[
        list[str] | None,
        Option(
            help="ubm-ips, ubm-dr, ubm-linear, ubm-ips-sequential, ips, position-ips, cascade-ips, cascade-dr or all; "
            "may be repeated. Default: ubm-ips, or ubm-linear where no two lists are alike."
        ),
    ] = None,
    bucket: Annotated[str | None, Option(help="Whose snapshot, if there are several.")] = None,
    examination: Annotated[Path | None, Option(help="The examination table. Default: learned from LOGS.")] = None,
    size: Annotated[int | None, Option(min=1, max=50, help="Length of the policy's lists.")] = None,
    temperature: Annotated[
        float, Option(min=0, help="Above 0 the policy draws items by e^(estimate / temperature).")
    ] = 0.0,
    clip: Annotated[float | None, Option(help="The largest weight.")] = None,
    normalise: Annotated[bool, Option("--normalise", help="Divide by the mean weight.")] = False,
    level: Annotated[float, Option(help="Of the intervals.")] = 0.95,
    bootstrap: Annotated[int, Option(min=0, help="Resamples for the intervals; 0 for asymptotic ones.")] = 0,
    seed: Annotated[int, Option(min=0, help="Of everything that is drawn.")] = 0,
    as_json: Annotated[bool, Option("--json", help="One line of JSON.")] = False,
    log_bucket: Annotated[list[str] | None, Option(help="Only logged lists of this bucket; may be repeated.")] = None,
    events: Events = False,
    start: From = None,
    stop: To = None,
    truncated: Truncated = False,
    config: Config = None,
) -> None:
    """Judge a policy on the log of another one: what its lists would have earned, with intervals.

    A file has a list a line. "items" and "clicks" are needed. "query" names what was asked for: an item counts as the
    same thing only under the same query. "contexts" has the vector of each item, by which the policy ranks.
    "candidate_items" and "candidate_contexts" have all that the list was chosen from, those shown included: the policy
    chooses from the same. Glimpse's own impressions carry them if the service gives them to the EventWriter. Without
    them it is said what was assumed: all items of a query, or only those shown.

    Where an item's vectors differ between lists (they tell of users), nothing was logged twice: ubm-linear judges by
    the model that the bandits learn by. Propensities are taken from the log ("propensities", given the items above;
    "position_propensities") if it has them, and estimated from its frequencies otherwise.
    """
    from streams.offline import evaluate_policy, evaluation_json, show_evaluation

    report = evaluate_policy(
        lists_at(logs, events, log_bucket, start, stop, truncated=truncated, config=config, candidates=True),
        policy_at(policy, bucket, config),
        estimator or (),
        bucket=bucket,
        examination=examination,
        size=size,
        temperature=temperature,
        clip=clip,
        normalise=normalise,
        level=level,
        draws=bootstrap,
        seed=seed,
    )
    if as_json:
        print(evaluation_json(report))
    else:
        show_evaluation(report, Console())


encoder = Typer(no_args_is_help=True, help="Encoders: short contexts made of many features.")
commands.add_typer(encoder, name="encoder")


@encoder.command()
def train(
    catalogue: Annotated[Path, Argument(help="Items and users with features, as JSON lines or .npz.")],
    out: Annotated[Path, Option(help="Where the encoder goes.")] = Path("encoder.bin"),
    pairs: Annotated[int, Option(min=100, help="Pairs of a user and an item to learn from.")] = 60_000,
    epochs: Annotated[int, Option(min=1, help="How often to go through them.")] = 30,
    seed: Annotated[int, Option(min=0, help="The same seed and versions give the same encoder.")] = 0,
) -> None:
    """Train the paper's denoising autoencoder on a catalogue's users and items: contexts of ten numbers.

    Serve with it: a catalogue whose recipe is ["code"], glimpse serve --encoder FILE, and its hash for the
    buckets, which carry it into their snapshots.
    """
    import numpy as np

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
