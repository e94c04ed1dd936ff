"""`glimpse fit` as people see it: a table file, a heat map and a comparison of the click models."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from learner.experiments.summary import Mean
from streams.charts import svg_map, terminal_map, terminal_table
from streams.offline.experiment_report import percent
from streams.offline.fit import MODELS, Fit, fit
from streams.offline.gap_map import nearest_cell
from streams.offline.logs import Logs
from streams.settings import write_examination

SETTLED = 0.7  # above it a fitted table gained up to a third less than the true one, in `glimpse experiment day-one`


def run_fit(
    logs: Logs,
    *,
    model: str,
    out: Path | None,
    held_out: Logs | None = None,
    picture: Path | None = None,
    console: Console,
) -> Fit:
    """Learn a table from a log, write it, and say which click model foretells other lists best."""
    found = fit(logs, model=model, held_out=held_out)
    console.print(compared(found))
    for line in verdict(found):
        console.print(line, markup=False, highlight=False)
    console.print(terminal_map(found.examination, found.observations))
    if picture is not None:
        picture.write_text(svg_map(found.examination, found.observations), encoding="utf-8")
        console.print(f"heat map: {picture}", markup=False, highlight=False)
    if out is not None:
        sha256 = write_examination(out, found.examination, found.observations, factor=found.factor)
        console.print(f"table of {found.model}: {out}, sha256 {sha256[:12]}…", markup=False, highlight=False)
    return found


def compared(found: Fit) -> Table:
    """Return how well each model foretells held-out lists, the best first, and the baselines that know no items."""
    lines = []
    for name in in_order(found):
        score = found.scores[name]
        behind = f"{score.behind:.4f} ± {score.behind_error:.4f}" if score.behind_error else "–"
        both = f"{score.perplexity.mean():.4f}", f"{score.conditional_perplexity:.4f}"
        lines.append([name, f"{score.log_likelihood:.4f}", behind, *both])
    return terminal_table(
        ("model", "ln P", "behind ± s.e.", "perplexity", "given clicks above"),
        lines,
        title=f"{found.judged_on} held-out lists, foretold from {found.trained_on}",
        caption="perplexity: 1 is a prophet, 2 a coin; ln P is of a row, the clicks above being known",
    )


def in_order(found: Fit) -> list[str]:
    """Return the models and baselines, the best first."""
    return sorted(found.scores, key=lambda name: -found.scores[name].log_likelihood)


def verdict(found: Fit) -> list[str]:
    """Return which model to take, how sure that is, and what to know of the table."""
    best, second = [name for name in in_order(found) if name in MODELS][:2]
    score = found.scores[second]
    if len(found.tied) == 1:
        lines = [f"best: {best}, ahead of {second} by {score.behind:.4f} ± {score.behind_error:.4f} in ln P of a row"]
    else:
        lines = [f"a tie: {', '.join(found.tied)}; {found.recommended} says it with the fewest numbers"]
    beaten = found.scores["position-only"].behind - found.scores[best].behind
    if beaten <= 2 * found.scores["position-only"].behind_error:
        lines.append("no model is surely better than a click rate per position: this log tells too little of its items")
    if found.model not in found.tied:
        chosen = found.scores[found.model]
        lines.append(f"{found.model}, as asked, is behind {best} by {chosen.behind:.4f} ± {chosen.behind_error:.4f}")
    lines.append(
        f"scale: divided by {found.factor:.4f}, so that the largest well-observed cell is 1; clicks tell w only up "
        "to a factor, and this one is a convention"
    )
    if found.settled > SETTLED:
        lines.append(
            f"{found.settled:.0%} of where an item stands is decided by the item itself, so that w is hard to tell "
            "from what items are worth; some noise in your ranker's scores would tell them apart: RESULTS.md, Day one"
        )
    lines += where_weights_pay(found)
    return lines + [f"note: {text}" for text in found.notes]


def where_weights_pay(found: Fit) -> list[str]:
    """Return the table's place on the map of `glimpse experiment gap`, and what weights gained there."""
    cell = nearest_cell(found.steepness, found.level)
    return [
        f"place on the map of `glimpse experiment gap`: w falls like 1/k^{found.steepness:.2f}, γ about "
        f"{found.level:.2f} once the largest w is 1; nearest cell 1/k^{cell.power:g}, {cell.level:g}",
        f"there UBM-LinUCB, learning from its own lists, had {percent(cell.changing)} clicks over C²UCB after "
        f"{cell.rounds:,} lists with candidates that change ({surely(cell.changing)}), {percent(cell.fixed)} with "
        f"always the same ({surely(cell.fixed)}); a log that another ranker ordered gains more: "
        'RESULTS.md, "Should I use weights?"',
    ]


def surely(lift: Mean) -> str:
    """Return what a lift with its 95% interval decides.

    >>> surely(Mean(0.04, 0.02)), surely(Mean(0.01, 0.02))
    ('weights pay', 'undecided')
    """
    if lift.half is None or abs(lift.value) <= lift.half:
        return "undecided"
    return "weights pay" if lift.value > 0 else "weights cost"
