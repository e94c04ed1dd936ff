"""glimpse show: what each bucket has learned, as its newest snapshot says."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.commands.options import Config, note

if TYPE_CHECKING:
    from schemas.records import Progress, Rollout, Snapshot
    from streams.settings import Bucket, Settings

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

    Settings that differ from those it was learned with are named, and so are a rollout that is in force over them and
    an epoch that has not caught up yet, with how far it is. A snapshot that is damaged is refused.
    """
    from contextlib import closing

    from streams.parameters import SnapshotMissing, describe, verify
    from streams.parameters.job import open_parameters
    from streams.settings import load

    settings = load(config)
    under_way = rollouts_of(settings) if source in (None, "kafka") else Rollouts()
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
            learned_with = under_way.learned_with(settings.buckets.get(name), snapshot)
            row = describe(snapshot, learned_with, where=place.where(name), now_ms=now_ms)
            rows.append(row | under_way.of(settings.buckets.get(name), snapshot))
        if not names:
            raise SnapshotMissing(f"no model under {place.where('*')}; start one: glimpse learn")
    if as_json:
        for row in rows:
            print(json.dumps(row))
    elif bucket:
        print("\n".join(page(rows[0])))
    else:
        print("\n".join(lines(rows)))


@dataclass(frozen=True)
class Rollouts:
    """What is on Kafka beside the snapshots: parameters that were rolled out, epochs that have not caught up."""

    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    candidates: Mapping[str, Snapshot] = field(default_factory=dict)
    progress: Mapping[int, Progress] = field(default_factory=dict)

    def learned_with(self, bucket: Bucket | None, snapshot: Snapshot) -> Bucket | None:
        """Return the bucket as a snapshot was learned, if that is known; else as the settings have it."""
        from streams.parameters import ConfigChanged
        from streams.rollout import Serving

        if bucket is None:
            return None
        try:
            return Serving(bucket, snapshot, self.rollouts.get(bucket.name)).parameters or bucket
        except ConfigChanged:  # the rollout does not fit the settings, which is said
            return bucket

    def of(self, bucket: Bucket | None, snapshot: Snapshot) -> dict[str, Any]:
        """Return what is under way with a bucket, as JSON can hold it."""
        from streams.parameters import ConfigChanged, describe_candidate, describe_rollout, differences, in_force

        rollout, candidate = self.rollouts.get(snapshot.bucket), self.candidates.get(snapshot.bucket)
        if candidate is not None and candidate.epoch <= snapshot.epoch:
            candidate = None
        at = self.progress.get(snapshot.samples_partition)
        differ: list[str] = []
        if bucket is not None and candidate is None:
            try:
                differ = differences(in_force(bucket, rollout), snapshot)
            except ConfigChanged as error:
                differ = [str(error)]
        return {
            "settings_differ": differ,
            "rollout": None if rollout is None or bucket is None else describe_rollout(bucket, rollout),
            "candidate": None if candidate is None else describe_candidate(candidate, at),
        }


def rollouts_of(settings: Settings) -> Rollouts:
    """Return what was rolled out on Kafka; when Kafka is away, nothing, and that is noted."""
    from contextlib import closing

    from streams.logs import SourceAway
    from streams.parameters import SnapshotMissing
    from streams.parameters.job import KafkaParameters

    try:
        with closing(KafkaParameters(settings)) as place:
            place.catch_up()
            return Rollouts(place.rollouts, place.candidates, place.progress)
    except (SourceAway, SnapshotMissing) as error:
        note(f"rollouts are not shown: {error}")
        return Rollouts()


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each bucket, tabs between."""
    from streams.lag import spoken

    return [
        f"{row['bucket']}\t{row['algorithm']}\t{row['version']}\t{row['lists']} lists\t{spoken(row['age_s'])} old\t"
        f"{row['sha256'][:12]}" + ("\tsettings differ" if row["settings_differ"] else "") + beside(row)
        for row in rows
    ]


def beside(row: dict[str, Any]) -> str:
    """Return in a few words what is under way with a bucket."""
    words = "\trolled out" if row["rollout"] and row["rollout"]["in_force"] else ""
    candidate = row["candidate"]
    if candidate is None:
        return words
    return words + f"\tepoch {candidate['epoch']} at {candidate['share'] or 0:.0%}"


def page(row: dict[str, Any]) -> list[str]:
    """Return one bucket at length."""
    from streams.lag import spoken

    theta = [f"{number:.4g}" for number in row["theta"][:SHOWN]]
    more = f" … ({len(row['theta'])} numbers; --json has all)" if len(row["theta"]) > SHOWN else ""
    alpha = "by the theorem" if row["alpha"] is None else f"{row['alpha']:g}"
    told = [
        ("bucket", row["bucket"]),
        ("from", row["where"]),
        ("algorithm", f"{row['algorithm']}, {row['positions']} positions, {row['dim']} features"),
        ("version", f"{row['version']} (epoch, samples offset), published {spoken(row['age_s'])} ago"),
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
    text += [f"{'differs':<10}in the settings: {difference}" for difference in row["settings_differ"]]
    if row["rollout"] and row["rollout"]["in_force"]:
        said = row["rollout"]["warning"] or f"epoch {row['rollout']['epoch']}, as the settings say"
        text.append(f"{'rollout':<10}{said}")
    if row["candidate"]:
        one = row["candidate"]
        text.append(
            f"{'candidate':<10}epoch {one['epoch']} ({one['algorithm']}) has learned {one['lists']} lists, to samples "
            f"offset {one['samples_offset']} of {one['of']} ({one['share'] or 0:.0%}), and serves when it has caught up"
        )
    return text
