"""The click rates of each bucket as its lists grow, as a page: the paper's figure of its online experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streams.charts import COLOURS, Line, line_chart, page
from streams.demo.crowd import Visit
from streams.demo.scores import columns, in_order

POINTS = 100
UNSTEADY = 50  # so many lists, and that share of them, are too few for a mean
BODY = """<h1>CTR_sum: clicks a list, mean so far</h1>
{ctr_sum}
<h1>CTR_set: lists with a click, mean so far</h1>
{ctr_set}
<h1>Regret, sum so far: clicked lists lost by not knowing the users' taste</h1>
{regret}"""


def write_curves(file: Path, visits: Sequence[Visit]) -> Path:
    """Write the page and return its path."""
    clicks, regret = columns(visits)
    charts: dict[str, list[Line]] = {"ctr_sum": [], "ctr_set": [], "regret": []}
    for place, name in enumerate(in_order(clicks)):
        lists = len(clicks[name])
        seen = np.arange(1, lists + 1)
        figures = {
            "ctr_sum": np.cumsum(clicks[name]) / seen,
            "ctr_set": np.cumsum(clicks[name] > 0) / seen,
            "regret": np.cumsum(regret[name]),
        }
        for figure, values in figures.items():
            first = 0 if figure == "regret" else min(lists - 1, max(UNSTEADY, lists // UNSTEADY))
            rows = np.unique(np.linspace(first, lists - 1, POINTS).astype(int))
            charts[figure].append(Line(name, COLOURS[place % len(COLOURS)], seen[rows], values[rows]))
    file.parent.mkdir(parents=True, exist_ok=True)
    drawn = {name: line_chart(lines, from_zero=name == "regret") for name, lines in charts.items()}
    file.write_text(page("Glimpse traffic", BODY.format(**drawn)), encoding="utf-8")
    return file
