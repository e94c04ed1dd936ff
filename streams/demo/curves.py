"""The click rate of each bucket over its lists, as a page: the figure of an online experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streams.charts import COLOURS, Line, line_chart, page
from streams.demo.crowd import Visit
from streams.demo.scores import columns, in_order

POINTS = 100
BODY = """<h1>Clicks a list, over a tenth of each bucket's lists</h1>
{chart}
<h1>Regret, sum so far: clicked lists lost by not knowing the users' taste</h1>
{regret}"""


def write_curves(file: Path, visits: Sequence[Visit]) -> Path:
    """Write the page and return its path."""
    clicks, regret = columns(visits)
    names = in_order(clicks)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    rates, lost = [], []
    for name in names:
        window = max(1, len(clicks[name]) // 10)
        moving = np.convolve(clicks[name], np.full(window, 1 / window), mode="valid")
        places = np.unique(np.linspace(0, len(moving) - 1, POINTS).astype(int))
        rates.append(Line(name, colours[name], places + window, moving[places]))
        sums = np.cumsum(regret[name])
        places = np.unique(np.linspace(0, len(sums) - 1, POINTS).astype(int))
        lost.append(Line(name, colours[name], places + 1, sums[places]))
    file.parent.mkdir(parents=True, exist_ok=True)
    body = BODY.format(chart=line_chart(rates), regret=line_chart(lost, from_zero=True))
    file.write_text(page("Glimpse traffic", body), encoding="utf-8")
    return file
