"""A chart of lifts with their intervals as SVG, in the page's colours in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from learner.experiments.summary import Mean
from streams.charts.line_chart import tick_step
from streams.charts.page import COLOURS, picture

WIDTH, LEFT, RIGHT, LINE, HEAD = 760, 230, 20, 17, 26


def dot_chart(rows: Mapping[str, Mapping[str, Mean]]) -> str:
    """Return a picture with a group of dots for each row, a dot with its 95% interval for each name, in percent."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    colour = dict(zip(names, COLOURS * 3, strict=False))
    ends = [
        100 * (mean.value + side * (mean.half or 0.0))
        for row in rows.values()
        for mean in row.values()
        for side in (-1, 1)
    ]
    low, high = min([*ends, 0.0]), max([*ends, 1.0])

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    parts, top = [], HEAD
    for title, row in rows.items():
        parts.append(f'<text x="8" y="{top + 12}" font-weight="600" fill="var(--ink, #222)">{escape(title)}</text>')
        top += LINE
        for name, mean in row.items():
            y, half = top + LINE / 2, 100 * (mean.half or 0.0)
            value = 100 * mean.value
            said = f"{escape(name)}: {value:+.1f} ± {half:.1f}%"
            parts.append(
                f'<g stroke="{colour[name]}" fill="{colour[name]}"><title>{said}</title>'
                f'<line x1="{x(value - half):.1f}" x2="{x(value + half):.1f}" y1="{y}" y2="{y}" stroke-width="2"/>'
                f'<circle cx="{x(value):.1f}" cy="{y}" r="4"/></g>'
                f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end" fill="var(--soft, #555)">{escape(name)}</text>'
            )
            top += LINE
        top += 8
    step = tick_step(high - low)
    at = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ticks = [
        f'<text x="{x(value):.1f}" y="14" text-anchor="middle" fill="var(--soft, #555)">{value:+g}%</text>'
        for value in at
    ]
    zero = f'<line x1="{x(0)}" x2="{x(0)}" y1="20" y2="{top}" stroke="var(--line, #ccc)"/>'
    return picture(WIDTH, top, [*ticks, zero, *parts])
