"""`glimpse fit` as people see it: a table file, a heat map and a comparison of the click models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.table import Table

from learner.click_models import CLICK_MODELS
from learner.experiments.summary import Mean
from schemas.json_text import parse_json
from streams.charts import svg_map, terminal_map, terminal_table
from streams.offline.fit import Fit, fit
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
    fitted = fit(logs, model=model, held_out=held_out)
    say = partial(console.print, markup=False, highlight=False)
    console.print(compared(fitted))
    say("\n".join(verdict(fitted)))
    console.print(terminal_map(fitted.examination, fitted.observations))
    if picture is not None:
        picture.write_text(svg_map(fitted.examination, fitted.observations), encoding="utf-8")
        say(f"heat map: {picture}")
    if out is not None:
        sha256 = write_examination(out, fitted.examination, fitted.observations, factor=fitted.factor)
        say(f"table of {fitted.model}: {out}, sha256 {sha256[:12]}…")
    return fitted


def compared(fitted: Fit) -> Table:
    """Return how well each model foretells held-out lists, the best first, and the baselines that know no items."""
    lines = []
    for name in in_order(fitted):
        score = fitted.scores[name]
        behind = f"{score.behind:.4f} ± {score.behind_error:.4f}" if score.behind_error else "–"
        both = f"{score.perplexity.mean():.4f}", f"{score.conditional_perplexity:.4f}"
        lines.append([name, f"{score.log_likelihood:.4f}", behind, *both])
    return terminal_table(
        ("model", "ln P", "behind ± s.e.", "perplexity", "given clicks above"),
        lines,
        title=f"{fitted.judged_on} held-out lists, foretold from {fitted.trained_on}",
        caption="perplexity: 1 is a prophet, 2 a coin; ln P is of a row, the clicks above being known",
    )


def in_order(fitted: Fit) -> list[str]:
    """Return the models and baselines, the best first."""
    return sorted(fitted.scores, key=lambda name: -fitted.scores[name].log_likelihood)


def verdict(fitted: Fit) -> list[str]:
    """Return which model to take, how sure that is, and what to know of the table."""
    best, second = [name for name in in_order(fitted) if name in CLICK_MODELS][:2]
    score = fitted.scores[second]
    if len(fitted.tied) == 1:
        lines = [f"best: {best}, ahead of {second} by {score.behind:.4f} ± {score.behind_error:.4f} in ln P of a row"]
    else:
        lines = [f"a tie: {', '.join(fitted.tied)}; {fitted.recommended} says it with the fewest numbers"]
    beaten = fitted.scores["position-only"].behind - fitted.scores[best].behind
    if beaten <= 2 * fitted.scores["position-only"].behind_error:
        lines.append("no model is surely better than a click rate per position: this log tells too little of its items")
    if fitted.model not in fitted.tied:
        chosen = fitted.scores[fitted.model]
        lines.append(f"{fitted.model}, as asked, is behind {best} by {chosen.behind:.4f} ± {chosen.behind_error:.4f}")
    lines.append(
        f"scale: divided by {fitted.factor:.4f}, so that the largest well-observed cell is 1; clicks tell w only up "
        "to a factor, and this one is a convention"
    )
    if fitted.settled > SETTLED:
        lines.append(
            f"{fitted.settled:.0%} of where an item stands is decided by the item itself, so that w is hard to tell "
            "from what items are worth; some noise in your ranker's scores would tell them apart: RESULTS.md, Day one"
        )
    lines += where_weights_pay(fitted)
    return lines + [f"note: {text}" for text in fitted.notes]


def where_weights_pay(fitted: Fit) -> list[str]:
    """Return the table's place on the map of `glimpse experiment gap`, and what weights gained there."""
    cell = nearest_cell(fitted.steepness, fitted.level)
    return [
        f"place on the map of `glimpse experiment gap`: w falls like 1/k^{fitted.steepness:.2f}, γ about "
        f"{fitted.level:.2f} once the largest w is 1; nearest cell 1/k^{cell.power:g}, {cell.level:g}",
        f"there UBM-LinUCB, learning from its own lists, had {cell.changing.percent} clicks over C²UCB after "
        f"{cell.rounds:,} lists with candidates that change ({surely(cell.changing)}), {cell.fixed.percent} with "
        f"always the same ({surely(cell.fixed)}); a log that another ranker ordered gains more: "
        'RESULTS.md, "Should I use weights?"',
    ]


def surely(lift: Mean) -> str:
    """Return what a lift with its 95% interval decides.

    >>> surely(Mean(0.04, 0.02)), surely(Mean(0.01, 0.02))
    ('weights pay', 'undecided')
    """
    if not lift.decided:
        return "undecided"
    return "weights pay" if lift.value > 0 else "weights cost"


@dataclass(frozen=True, slots=True)
class GapCell:
    """One kind of traffic: w = 0.95/k^power, a mean γ, and the lift of UBM-LinUCB over C²UCB there, both α tuned."""

    power: float
    level: float
    rounds: int
    changing: Mean  # with candidates that change from visit to visit
    fixed: Mean  # with always the same


@cache
def gap_cells() -> tuple[GapCell, ...]:
    """Return the measured map of where weights pay: map.json as `glimpse experiment gap` writes it."""
    rows = parse_json(files("streams.offline").joinpath("gap_map.json").read_text(encoding="utf-8"))
    return tuple(
        GapCell(row["power"], row["level"], row["rounds"], Mean(*row["changing"]), Mean(*row["fixed"])) for row in rows
    )


def nearest_cell(steepness: float, level: float) -> GapCell:
    """Return the cell that a table lies in: its steps are factors, of steepness and of clicks.

    >>> (cell := nearest_cell(0.9, 0.4)).power, cell.level
    (1.0, 0.3)
    """

    def away(cell: GapCell) -> float:
        steep = math.log2(max(steepness, 1e-3) / cell.power)
        return steep**2 + (math.log(max(level, 1e-6) / cell.level) / math.log(3)) ** 2

    return min(gap_cells(), key=away)
