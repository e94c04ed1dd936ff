"""The demo's report: one HTML page with its pictures inside and no request to anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learner.experiments.day_one import LEARNERS
from learner.simulate import World
from streams.charts import COLOURS, Line, html_table, line_chart, page, picture, svg_map
from streams.demo.crowd import Visit
from streams.demo.day_one import COMMANDS, SEEDS
from streams.demo.scores import HEADINGS, ORDER, BucketScore, cells, columns
from streams.offline import DayOneRow, day_one_chart, day_one_grid

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


def write_report(
    file: Path,
    logs: Sequence[DayOneRow],
    visits: Sequence[Visit],
    found: Sequence[BucketScore],
    *,
    thetas: Mapping[str, NDArray[np.float64]],
    world: World,
    seed: int,
    alpha: float,
) -> Path:
    """Write the page and return its path."""
    clicks, regret = columns(visits)
    table = world.users.examination
    shown = [*LEARNERS, "oracle"]
    head, cells_by_log = day_one_grid(logs, shown)
    log_head, *log_cells = zip(head, *cells_by_log, strict=True)  # a line per learner: eight columns are too wide
    body = BODY.format(
        log_seeds=SEEDS,
        logs=html_table(log_head, log_cells),
        log_chart=day_one_chart(logs, shown),
        commands=escape(COMMANDS),
        lists=len(visits),
        seed=seed,
        alpha=alpha,
        table=html_table(HEADINGS, map(cells, found), colours=[COLOUR_OF[score.bucket] for score in found]),
        clicks=line_chart([_line(name, np.cumsum(clicks[name]) / _count(clicks[name])) for name in _known(clicks)]),
        regret=line_chart([_line(name, np.cumsum(regret[name])) for name in _known(regret)], from_zero=True),
        theta=_thetas(thetas, world.users.taste),
        heat=svg_map(table, np.tril(np.ones(table.shape, dtype=np.int64))),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page("Glimpse demo", body), encoding="utf-8")
    return file


def _known(values: Mapping[str, object]) -> list[str]:
    return [name for name in ORDER if name in values]


def _count(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.arange(1, len(values) + 1)


def _line(name: str, values: NDArray[np.float64]) -> Line:
    """Return a curve of about 200 points; the first few lists of a mean are noise and left out."""
    places = np.unique(np.linspace(min(100, len(values) // 10), len(values) - 1, 200).astype(int))
    return Line(name, COLOUR_OF[name], places, values[places])


def _thetas(thetas: Mapping[str, NDArray[np.float64]], truth: NDArray[np.float64]) -> str:
    """Return a scatter of learned against true coefficients."""
    width, height, edge = 640, 360, 46
    low = min(float(truth.min()), *(float(theta.min()) for theta in thetas.values())) - 0.02
    high = max(float(truth.max()), *(float(theta.max()) for theta in thetas.values())) + 0.02

    def x(value: float) -> float:
        return edge + (value - low) / (high - low) * (width - 2 * edge)

    def y(value: float) -> float:
        return height - edge - (value - low) / (high - low) * (height - 2 * edge)

    ends = f'x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"'
    soft = 'fill="var(--soft)"'
    parts = [
        f'<line {ends} stroke="var(--line)" stroke-dasharray="4 4"/>',
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle" fill="var(--soft)">true θ*</text>',
        f'<text x="12" y="{edge - 18}" fill="var(--soft)">learned θ</text>',
    ]
    for tick in np.linspace(round(low, 1), round(high, 1), 5):
        parts.append(f'<text x="{x(tick):.0f}" y="{height - edge + 18}" text-anchor="middle" {soft}>{tick:.2f}</text>')
        parts.append(f'<text x="{edge - 6}" y="{y(tick):.0f}" text-anchor="end" {soft}>{tick:.2f}</text>')
    for row, (name, theta) in enumerate(thetas.items()):
        points = "".join(
            f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4.5"><title>{name}: {b:.3f}, true {a:.3f}</title></circle>'
            for a, b in zip(truth.tolist(), theta.tolist(), strict=True)
        )
        parts.append(f'<g fill="{COLOUR_OF[name]}" fill-opacity="0.85">{points}</g>')
        parts.append(f'<circle cx="{edge + 14}" cy="{edge + 4 + 18 * row}" r="4.5" fill="{COLOUR_OF[name]}"/>')
        parts.append(f'<text x="{edge + 24}" y="{edge + 8 + 18 * row}" fill="var(--ink)">{name}</text>')
    return picture(width, height, parts)
