"""`glimpse fit` as people see it: a table file, a heat map and a comparison of the click models."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from streams.offline.fit import Fit, fit
from streams.offline.heat_map import svg_map, terminal_map
from streams.offline.logs import read_logs
from streams.settings import write_examination


def run_fit(
    path: Path,
    *,
    model: str,
    out: Path | None,
    held_out: Path | None = None,
    picture: Path | None = None,
    console: Console,
) -> Fit:
    """Learn a table from a log, write it, and say which click model foretells other lists best."""
    found = fit(read_logs(path), model=model, held_out=read_logs(held_out) if held_out else None)
    console.print(compared(found))
    for line in verdict(found):
        console.print(line, markup=False, highlight=False)
    console.print(terminal_map(found.examination, found.observations))
    if picture is not None:
        picture.write_text(svg_map(found.examination, found.observations), encoding="utf-8")
        console.print(f"heat map: {picture}", markup=False, highlight=False)
    if out is not None:
        sha256 = write_examination(out, found.examination, found.observations)
        console.print(f"table of {found.model}: {out}, sha256 {sha256[:12]}…", markup=False, highlight=False)
    return found


def compared(found: Fit) -> Table:
    """Return the perplexities of the models per rank, the best model left."""
    table = Table(
        title=f"perplexity per rank on {found.judged_on} held-out lists, learned from {found.trained_on}",
        caption="1 is a prophet, 2 a coin; ln P is of a row, the clicks above being known",
    )
    order = sorted(found.scores, key=lambda name: -found.scores[name].log_likelihood)
    scores = [found.scores[name] for name in order]
    table.add_column("rank")
    for name in order:
        table.add_column(name, justify="right")
    for rank, values in enumerate(zip(*(score.perplexity for score in scores), strict=True), 1):
        table.add_row(str(rank), *(f"{value:.4f}" for value in values))
    table.add_section()
    table.add_row("mean", *(f"{score.perplexity.mean():.4f}" for score in scores))
    table.add_row("mean, given the clicks above", *(f"{score.conditional_perplexity:.4f}" for score in scores))
    table.add_row("ln P", *(f"{score.log_likelihood:.4f}" for score in scores))
    return table


def verdict(found: Fit) -> list[str]:
    """Return which model to take, how sure that is, and what to know of the table."""
    order = sorted(found.scores, key=lambda name: -found.scores[name].log_likelihood)
    second = found.scores[order[1]]
    sure = "" if second.behind > 2 * second.behind_error else ", which is too close to call"
    lines = [
        f"best: {found.recommended}, ahead of {order[1]} by {second.behind:.4f} ± {second.behind_error:.4f} "
        f"in ln P of a row{sure}"
    ]
    if found.model != found.recommended:
        chosen = found.scores[found.model]
        lines.append(
            f"{found.model}, as asked, is behind {found.recommended} by {chosen.behind:.4f} ± {chosen.behind_error:.4f}"
        )
    return lines + [f"note: {text}" for text in found.notes]
