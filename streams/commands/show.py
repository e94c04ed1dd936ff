"""glimpse show: what each bucket has learned, as its newest snapshot says."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from streams.commands.options import Config, note, settings_of

if TYPE_CHECKING:
    from schemas.records import Progress, Rollout, Snapshot
    from streams.settings import Bucket, Settings

commands = Typer()

SHOWN = 24  # numbers of θ; --json has all


@commands.command()
def show(
    bucket: Annotated[str | None, Argument(help="Whose model; without one, a line for each bucket.")] = None,
    source: Annotated[
        str | None,
        Option(help="A store's name, its URL, or a directory. Default: the online store if set, else kafka."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="One line of JSON per bucket, with all of θ.")] = False,
    config: Config = None,
) -> None:
    """Show what a bucket's newest snapshot holds: algorithm, version, age, lists, θ, table, hashes, where from.

    Settings that differ from those it was learned with are named, and so are a rollout that is in force over them and
    an epoch that has not caught up yet, with how far it is. A snapshot that is damaged is refused.
    """
    from streams.parameters import SnapshotMissing, verify
    from streams.parameters.job import open_parameters, serving_store

    settings = settings_of(config)
    under_way = rollouts_of(settings) if source in (None, "kafka") else Rollouts()
    with closing(open_parameters(source or serving_store(settings), settings)) as store:
        names = [bucket] if bucket else sorted({*store.buckets(), *settings.buckets})
        rows = []
        for name, snapshot in {name: store.newest(name) for name in names}.items():
            if snapshot is None:
                if bucket:
                    there = ", ".join(store.buckets()) or "none"
                    raise SnapshotMissing(f"no model under {store.where(name)}; there are models of: {there}")
                note(f"{name}: no model under {store.where(name)}; start one: glimpse learn")
                continue
            verify(snapshot)
            known, now_ms = settings.buckets.get(name), round(time.time() * 1000)
            rows.append(under_way.row(known, snapshot, where=store.where(name), now_ms=now_ms))
        if not names:
            raise SnapshotMissing(f"no model under {store.where('*')}; start one: glimpse learn")
    if as_json:
        for row in rows:
            print(json.dumps(row))
    elif bucket:
        print("\n".join(page(rows[0])))
    else:
        print("\n".join(map(line, rows)))


@dataclass(frozen=True)
class Rollouts:
    """What is on Kafka beside the snapshots: parameters that were rolled out, epochs that have not caught up."""

    rollouts: Mapping[str, Rollout] = field(default_factory=dict)
    candidates: Mapping[str, Snapshot] = field(default_factory=dict)
    progress: Mapping[int, Progress] = field(default_factory=dict)

    def row(self, bucket: Bucket | None, snapshot: Snapshot, *, where: str, now_ms: int) -> dict[str, Any]:
        """Return what a snapshot holds and what is under way with its bucket, as JSON can hold it."""
        from streams.parameters import (
            ConfigChanged,
            describe,
            describe_candidate,
            describe_rollout,
            differences,
            in_force,
        )
        from streams.rollout import Serving

        rollout, candidate = self.rollouts.get(snapshot.bucket), self.candidates.get(snapshot.bucket)
        if candidate is not None and candidate.epoch <= snapshot.epoch:
            candidate = None
        learned_with, differ = bucket, list[str]()
        if bucket is not None:
            with suppress(ConfigChanged):  # a rollout that does not fit the settings is a difference
                learned_with = Serving(bucket, snapshot, rollout).parameters or bucket
            try:
                differ = differences(in_force(bucket, rollout), snapshot)
            except ConfigChanged as error:
                differ = [str(error)]
        at = self.progress.get(snapshot.samples_partition)
        return describe(snapshot, learned_with, where=where, now_ms=now_ms) | {
            "settings_differ": differ if candidate is None else [],
            "rollout": None if rollout is None or bucket is None else describe_rollout(bucket, rollout),
            "candidate": None if candidate is None else describe_candidate(candidate, at),
        }


def rollouts_of(settings: Settings) -> Rollouts:
    """Return what was rolled out on Kafka; when Kafka is away, nothing, and that is noted."""
    from streams.logs import SourceAway
    from streams.parameters import SnapshotMissing
    from streams.parameters.job import KafkaParameters

    try:
        with closing(KafkaParameters(settings)) as store:
            store.catch_up()
            return Rollouts(store.rollouts, store.candidates, store.progress)
    except (SourceAway, SnapshotMissing) as error:
        note(f"rollouts are not shown: {error}")
        return Rollouts()


def line(row: dict[str, Any]) -> str:
    """Return one bucket in a line, tabs between."""
    from streams.lag import spoken

    words = [row["bucket"], row["algorithm"], row["version"], f"{row['lists']} lists", f"{spoken(row['age_s'])} old"]
    words += [row["sha256"][:12], *(["settings differ"] if row["settings_differ"] else [])]
    if row["rollout"] and row["rollout"]["in_force"]:
        words.append("rolled out")
    if row["candidate"]:
        words.append(f"epoch {row['candidate']['epoch']} at {row['candidate']['share'] or 0:.0%}")
    return "\t".join(map(str, words))


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
        candidate = row["candidate"]
        text.append(
            f"{'candidate':<10}epoch {candidate['epoch']} ({candidate['algorithm']}) has learned "
            f"{candidate['lists']} lists, to samples offset {candidate['samples_offset']} of {candidate['of']} "
            f"({candidate['share'] or 0:.0%}), and serves when it has caught up"
        )
    return text
