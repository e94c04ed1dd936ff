"""glimpse rollout: other parameters for a bucket that serves, without a gap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.commands.options import CommandError, Config, note, with_buckets, writes_to
from streams.commands.progress import bar

if TYPE_CHECKING:
    from streams.rollout import RolloutPlan
    from streams.rollout.job import Relearned

commands = typer.Typer()


@commands.command()
def rollout(
    bucket: Annotated[str, typer.Option(help="Whose parameters.")],
    examination: Annotated[Path | None, typer.Option(help="Another examination table, as `fit` writes it.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Another algorithm.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Another width of the bound.")] = None,
    ridge: Annotated[str | None, typer.Option(help="Another λ, or `safe`.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only shown what it would do.")] = False,
    back: Annotated[bool, typer.Option("--back", help="Go back, now, to what was learned with before.")] = False,
    truncated: Annotated[
        bool, typer.Option("--truncated", help="Also from a samples log that has lost its beginning.")
    ] = False,
    config: Config = None,
) -> None:
    """Learn a bucket with other parameters beside the one that serves, and switch when it has caught up.

    Without --yes nothing is written: the bucket is relearned from the samples here, and shown are its click rate by
    UBM-IPS, θ and the ranks that change. With --yes the parameters, table included, are written to Kafka and in force
    over glimpse.toml: running workers learn a new epoch from the beginning of the samples, while the old one serves and
    learns on, and rankers get it once it knows as much. --back is the same with the parameters of before: versions only
    grow. Without any parameter, those of glimpse.toml are rolled out. Watch it: glimpse show.
    """
    from functools import partial

    from rich.console import Console

    from streams.rollout import back as going_back
    from streams.rollout import onward
    from streams.rollout.job import check_log, now_ms, relearn, serving_of, write
    from streams.settings import read_examination

    settings = with_buckets(config)
    asked: dict[str, Any] = {"algorithm": algorithm, "alpha": alpha, "ridge": _ridge(ridge)}
    asked["examination"] = None if examination is None else read_examination(examination)
    changes = {name: value for name, value in asked.items() if value is not None}
    if back and changes:
        raise CommandError(f"--back takes the parameters of before: leave out --{next(iter(changes))}")
    serving = serving_of(settings, bucket)
    plan = going_back(serving) if back else onward(serving, changes)
    notes = check_log(settings, plan, truncated=truncated)
    for line in [*plan_lines(plan), *notes]:
        print(line)
    if not yes and not back:
        with bar(Console(stderr=True)) as progress:
            task = progress.add_task("samples", total=None)
            say = partial(progress.update, task)
            done = relearn(settings, plan, say=lambda passed, total: say(completed=passed, total=total))
        for line in effect_lines(plan, done):
            print(line)
        print("nothing was written; the same with --yes rolls it out")
        return
    writes_to(settings, ["parameters"])
    write(settings, plan.record(truncated=truncated, now_ms=now_ms()))
    note(
        f"epoch {plan.after.epoch} of {bucket} is learned by the running workers, and serves when it has caught up; "
        f"until then epoch {plan.serving.epoch} does. Watch it: glimpse show {bucket}"
    )


def _ridge(given: str | None) -> float | str | None:
    """Return λ as a bucket takes it; what is no number is judged by the bucket, as in glimpse.toml."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def plan_lines(plan: RolloutPlan) -> list[str]:
    """Return what changes, for people."""
    lines = [f"bucket {plan.after.name}: epoch {plan.serving.epoch} serves, {plan.after.epoch} would"]
    changes = plan.changes()
    lines += [f"  {name:<10}{ours} → {theirs}" for name, ours, theirs in changes]
    return lines if changes else [*lines, "  the same parameters as those that serve"]


def effect_lines(plan: RolloutPlan, done: Relearned) -> list[str]:
    """Return what the new parameters would do, for people."""
    from streams.parameters import name_of

    effect, model = done.effect, done.model
    of_lists = f"the newest {effect.lists:,} lists"
    lines = [
        f"relearned   {model.rounds:,} lists, sha256 {model.sha256()}",
        f"serves now  {plan.serving.rounds:,} lists, sha256 {plan.serving.sha256} ({name_of(plan.serving)})",
        f"clicks      per list by UBM-IPS with {done.table}, {of_lists} each in the model's order:",
        f"            {effect.serving.value:.4f} now ({effect.serving.low:.4f} to {effect.serving.high:.4f}), "
        f"{effect.new.value:.4f} new ({effect.new.low:.4f} to {effect.new.high:.4f}); as shown {effect.earned:.4f}",
        f"ranks       {effect.reordered:.1%} of these lists would be in another order, {effect.other_first:.1%} have "
        "another first",
    ]
    if effect.cosine is not None and effect.moved is not None:
        most = ", ".join(f"θ[{row}] {before:.4g} → {after:.4g}" for row, before, after in effect.most_moved)
        lines.append(f"θ           cosine {effect.cosine:.4f}, moved by {effect.moved:.1%} of its length; {most}")
    lines.append(
        "            The rates compare two orders of the items that were shown, by clicks that both have learned from:"
    )
    lines.append("            what will be earned is another question (glimpse evaluate, glimpse compare).")
    return lines
