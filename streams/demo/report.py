"""What simulated visits earned, by bucket: scores with intervals, curves, and the demo's report with day one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from learner.experiments.day_one import DayOne, standings
from learner.simulate import World
from streams.charts import COLOURS, Line, html_table, line_chart, page, scatter, svg_map, terminal_table
from streams.demo.crowd import ORDER, Visit
from streams.experiments import DayOneRow, day_one_chart, day_one_grid

Floats = NDArray[np.float64]
BASELINE = "c2ucb"
HEADINGS = ("bucket", "lists", "CTR_sum", "CTR_set", "lift ± 95%", "regret in 1,000", "‖θ − θ*‖")
POINTS = 100
UNSTEADY = 50  # so many lists, and that share of them, are too few for a mean
CURVES = """<h1>CTR_sum: clicks a list, mean so far</h1>
{ctr_sum}
<h1>CTR_set: lists with a click, mean so far</h1>
{ctr_set}
<h1>Regret, sum so far: clicked lists lost by not knowing the users' taste</h1>
{regret}"""
SEEDS = 5
LOG = DayOne(lists=6000, served=2000)
OLD_RANKERS = {"ranker knew nothing": LOG, "ranker half right": replace(LOG, likeness=0.5)}
BLOCK = "12 of 40 candidates, users who look at 55% of first and 17% of last positions"
COMMANDS = """The same on your own topics:
  glimpse fit kafka --out table.json
  glimpse replay kafka --algorithm ubm-linucb --examination table.json --out snapshots
  glimpse evaluate kafka --policy snapshots --examination table.json"""
COLOUR_OF = dict(zip(ORDER, COLOURS, strict=False))
BODY = """<h1>Day one: what each learner makes of an old ranker's log</h1>
<p>Your log was ordered by your old ranker. What it liked stood high, what stood high was seen, and what was seen was
clicked: whoever takes unseen for refused learns the old ranker's taste with the users'. Each learner here read the same
log and then served the same users; lifts of CTR_sum over C²UCB, {log_seeds} seeds, 95% intervals, in brackets the
cosine of what it learned with the users' taste.</p>
{logs}
<section>{log_chart}</section>
<section><pre>{commands}</pre></section>
<h1>The closed loop: what each bandit earned from its own lists</h1>
<p>{lists:,} lists of simulated users, seed {seed}, α = {alpha} for every bucket. Users look at deep positions less
often and at those behind a click more often; each bucket learned only from its own users, through the same join and
learners that run on Kafka.</p>
{table}
<div class="pair">
<section><h2>Clicks a list, mean so far</h2>{clicks}</section>
<section><h2>Regret, sum so far: clicked lists lost by not knowing θ*</h2>{regret}</section>
</div>
<div class="pair">
<section><h2>The learned θ against the true θ*</h2>
<p>A bandit that takes unseen items for disliked ones learns a shrunken taste; the diagonal is the truth.</p>
{theta}</section>
<section><h2>How these users browse</h2>
<p>The chance that position k is examined, by the last click k′ above it.</p>
{heat}</section>
</div>"""


@dataclass(frozen=True, slots=True)
class BucketScore:
    """What one bucket earned."""

    bucket: str
    lists: int
    ctr_sum: float
    ctr_set: float
    lift: float | None  # of CTR_sum against the baseline
    margin: float  # of the lift's 95% interval
    regret: float  # a thousand lists
    distance: float | None = None  # ‖θ − θ*‖


def scores(visits: Sequence[Visit]) -> list[BucketScore]:
    """Return the score of every bucket that has visits, in a fixed order."""
    buckets = columns(visits)
    scored = []
    for name, (clicks, regret) in buckets.items():
        lift, margin = lift_of(clicks, buckets[BASELINE][0]) if BASELINE in buckets else (None, 0.0)
        scored.append(
            BucketScore(
                bucket=name,
                lists=len(clicks),
                ctr_sum=float(clicks.mean()),
                ctr_set=float((clicks > 0).mean()),
                lift=None if name == BASELINE else lift,
                margin=margin,
                regret=1000 * float(regret.mean()),
            )
        )
    return scored


def columns(visits: Sequence[Visit]) -> dict[str, tuple[Floats, Floats]]:
    """Return the clicks and the regret of each bucket's visits in the order of time; known buckets come first."""
    there = {visit.bucket for visit in visits}
    names = [*(name for name in ORDER if name in there), *sorted(there.difference(ORDER))]
    by_bucket = {name: [visit for visit in visits if visit.bucket == name] for name in names}
    return {
        name: (np.array([visit.clicks for visit in seen], dtype=np.float64), np.array([visit.regret for visit in seen]))
        for name, seen in by_bucket.items()
    }


def lift_of(mine: Floats, base: Floats) -> tuple[float, float]:
    """Return mean(mine)/mean(base) − 1 and the half width of its 95% interval (delta method).

    >>> lift, margin = lift_of(np.array([2.0, 0.0] * 500), np.array([1.0, 0.0] * 500))
    >>> round(lift, 3), round(margin, 3)
    (1.0, 0.175)
    """
    if not base.any() or not mine.any():
        return 0.0, 0.0
    ratio = mine.mean() / base.mean()
    spread = mine.var() / len(mine) / mine.mean() ** 2 + base.var() / len(base) / base.mean() ** 2
    return float(ratio - 1), float(1.96 * ratio * np.sqrt(spread))


def table_of(scored: Sequence[BucketScore]) -> Table:
    """Return the scores as a table."""
    caption = "regret: clicked lists lost by not knowing the true taste θ*"
    return terminal_table(HEADINGS, map(cells, scored), caption=caption)


def cells(score: BucketScore) -> list[str]:
    """Return one row of the table as text."""
    none = "baseline" if score.bucket == BASELINE else "–"
    lift = none if score.lift is None else f"{score.lift:+.1%} ± {score.margin:.1%}"
    distance = "–" if score.distance is None else f"{score.distance:.3f}"
    rates = [f"{score.ctr_sum:.3f}", f"{score.ctr_set:.3f}", lift, f"{score.regret:.1f}", distance]
    return [score.bucket, f"{score.lists:,}", *rates]


def curves(visits: Sequence[Visit]) -> dict[str, str]:
    """Return the pictures of CTR_sum, CTR_set and regret against the lists of each bucket."""
    buckets = columns(visits)
    lines: dict[str, list[Line]] = {"ctr_sum": [], "ctr_set": [], "regret": []}
    for colour, (name, (clicks, regret)) in zip(COLOURS * len(buckets), buckets.items(), strict=False):
        lists = len(clicks)
        seen = np.arange(1, lists + 1)
        values = {
            "ctr_sum": np.cumsum(clicks) / seen,
            "ctr_set": np.cumsum(clicks > 0) / seen,
            "regret": np.cumsum(regret),
        }
        for figure, drawn in lines.items():
            first = 0 if figure == "regret" else min(lists - 1, max(UNSTEADY, lists // UNSTEADY))
            rows = np.unique(np.linspace(first, lists - 1, POINTS).astype(int))
            drawn.append(Line(name, colour, seen[rows], values[figure][rows]))
    return {figure: line_chart(drawn, from_zero=figure == "regret") for figure, drawn in lines.items()}


def write_curves(file: Path, visits: Sequence[Visit]) -> Path:
    """Write the pictures as a page and return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page("Glimpse traffic", CURVES.format(**curves(visits))), encoding="utf-8")
    return file


@cache
def first_day(seed: int) -> list[DayOneRow]:
    """Return how the learners stand after learning from the logs of two old rankers."""
    return [
        DayOneRow(BLOCK, name, standings([world.play(seed * SEEDS + run) for run in range(SEEDS)]))
        for name, world in OLD_RANKERS.items()
    ]


def write_report(
    file: Path,
    logs: Sequence[DayOneRow],
    visits: Sequence[Visit],
    scores: Sequence[BucketScore],
    *,
    thetas: Mapping[str, Floats],
    world: World,
    seed: int,
    alpha: float,
) -> Path:
    """Write the page and return its path."""
    drawn = curves(visits)
    table = world.users.examination
    head, cells_by_log = day_one_grid(logs)
    log_head, *log_cells = zip(head, *cells_by_log, strict=True)  # a line per learner: eight columns are too wide
    body = BODY.format(
        log_seeds=SEEDS,
        logs=html_table(log_head, log_cells),
        log_chart=day_one_chart(logs),
        commands=escape(COMMANDS),
        lists=len(visits),
        seed=seed,
        alpha=alpha,
        table=html_table(HEADINGS, map(cells, scores), colours=[COLOUR_OF[score.bucket] for score in scores]),
        clicks=drawn["ctr_sum"],
        regret=drawn["regret"],
        theta=scatter(
            world.users.taste,
            {name: (COLOUR_OF[name], theta) for name, theta in thetas.items()},
            across="true θ*",
            up="learned θ",
        ),
        heat=svg_map(table, np.tril(np.ones(table.shape, dtype=np.int64))),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page("Glimpse demo", body), encoding="utf-8")
    return file
