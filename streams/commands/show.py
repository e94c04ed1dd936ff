"""glimpse show: what each bucket has learned, as its newest snapshot says."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from streams.commands.options import Config, note

commands = typer.Typer()

SHOWN = 24  # numbers of θ; --json has all


@commands.command()
def show(
    bucket: Annotated[str | None, typer.Argument(help="Whose model; without one, a line for each bucket.")] = None,
    source: Annotated[
        str | None, typer.Option(help="kafka, redis, a URL of one, or a directory; else redis if set, else kafka.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per bucket, with all of θ.")] = False,
    config: Config = None,
) -> None:
    """Show what a bucket's newest snapshot holds: algorithm, version, age, lists, θ, table, hashes, where from.

    Settings that differ from those it was learned with are named. A snapshot that is damaged is refused.
    """
    from contextlib import closing

    from streams.parameters import SnapshotMissing, describe, verify
    from streams.parameters.job import open_parameters
    from streams.settings import load

    settings = load(config)
    with closing(open_parameters(source or ("redis" if settings.redis else "kafka"), settings)) as place:
        names = [bucket] if bucket else sorted({*place.buckets(), *settings.buckets})
        found = {name: place.newest(name) for name in names}
        rows = []
        for name, snapshot in found.items():
            if snapshot is None:
                if bucket:
                    known = ", ".join(place.buckets()) or "none"
                    raise SnapshotMissing(f"no model under {place.where(name)}; there are models of: {known}")
                note(f"{name}: no model under {place.where(name)}; start one: glimpse learn")
                continue
            verify(snapshot)
            now_ms = round(time.time() * 1000)
            rows.append(describe(snapshot, settings.buckets.get(name), where=place.where(name), now_ms=now_ms))
        if not names:
            raise SnapshotMissing(f"no model under {place.where('*')}; start one: glimpse learn")
    if as_json:
        for row in rows:
            print(json.dumps(row))
    elif bucket:
        print("\n".join(page(rows[0])))
    else:
        print("\n".join(lines(rows)))


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each bucket, tabs between."""
    return [
        f"{row['bucket']}\t{row['algorithm']}\t{row['version']}\t{row['lists']} lists\t{age(row['age_s'])} old\t"
        f"{row['sha256'][:12]}" + ("\tsettings differ" if row["settings_differ"] else "")
        for row in rows
    ]


def page(row: dict[str, Any]) -> list[str]:
    """Return one bucket at length."""
    theta = [f"{number:.4g}" for number in row["theta"][:SHOWN]]
    more = f" … ({len(row['theta'])} numbers; --json has all)" if len(row["theta"]) > SHOWN else ""
    alpha = "by the theorem" if row["alpha"] is None else f"{row['alpha']:g}"
    told = [
        ("bucket", row["bucket"]),
        ("from", row["where"]),
        ("algorithm", f"{row['algorithm']}, {row['positions']} positions, {row['dim']} features"),
        ("version", f"{row['version']} (epoch, samples offset), published {age(row['age_s'])} ago"),
        ("lists", str(row["lists"])),
        ("settings", f"α {alpha}, λ {row['ridge']:g}, β {row['beta']:g}, φ′ {row['phi']:g}"),
        ("scales", f"contexts / {row['context_scale']:g}, rewards / {row['reward_scale']:g}"),
        ("θ", " ".join(theta) + more if theta else "none: nothing was learned, or more was taken back than learned"),
        ("state", f"sha256 {row['sha256']}"),
        ("encoder", f"sha256 {row['encoder_sha256']}" if row["encoder_sha256"] else "none"),
        ("samples", row["samples"]),
        ("table", f"sha256 {row['table_sha256']}" if row["table_sha256"] else "none"),
    ]
    text = [f"{name:<10}{value}" for name, value in told]
    for cells in row["table"] or []:
        numbers = cells if isinstance(cells, list) else [cells]
        text += [" " * 10 + " ".join(f"{number:.3f}" for number in numbers)]
    if row["table_sha256"] and row["table"] is None:
        text.append(" " * 10 + "not the table in the settings, so its cells are not known here")
    return text + [f"{'differs':<10}in the settings: {difference}" for difference in row["settings_differ"]]


def age(seconds: float) -> str:
    """Return a span of time in its largest unit.

    >>> age(0.4), age(75), age(7200), age(200_000)
    ('0.4 s', '75 s', '2.0 h', '2.3 d')
    """
    for unit, length in (("d", 86_400.0), ("h", 3_600.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
