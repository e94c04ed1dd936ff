"""The click rate of each bucket over its lists, as a page: the figure of an online experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streams.compare import Line, line_chart
from streams.demo.crowd import Visit
from streams.demo.scores import columns, in_order

COLOURS = ("#8a8f98", "#b07aa1", "#e0883a", "#c9a400", "#3f8fd2", "#1a9850", "#d1495b", "#6b4c9a")
POINTS = 100
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Glimpse traffic</title>
<style>:root {{ color-scheme: light dark; --soft: #7d8590; --line: #8884 }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem }} svg text {{ font: 12px system-ui, sans-serif }}</style>
</head><body><h1>Clicks a list, over a tenth of each bucket's lists</h1>
{chart}
<h1>Regret, sum so far: clicked lists lost by not knowing the users' taste</h1>
{regret}</body></html>
"""


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
    file.write_text(PAGE.format(chart=line_chart(rates), regret=line_chart(lost, from_zero=True)), encoding="utf-8")
    return file
