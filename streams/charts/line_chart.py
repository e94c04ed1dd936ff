"""Curves, and dots with their intervals, as SVG pictures that follow the page's colours in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from learner.experiments.summary import Mean
from streams.charts.page import COLOURS, picture

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 92, 10, 28
LETTER = 7  # pixels
SOFT = "var(--soft, #555)"
LABEL = 15  # pixels that a curve's name needs
DOTS_WIDTH, DOTS_LEFT, DOTS_RIGHT, LINE, HEAD = 760, 230, 20, 17, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One curve with its name and colour."""

    name: str
    colour: str
    x: NDArray[np.int64]
    y: NDArray[np.float64]
    half: NDArray[np.float64] | float = 0.0  # the half-width of an interval around each point
    dashed: bool = False


def line_chart(lines: Sequence[Line], *, from_zero: bool = False, along: str = "lists", start: int = 0) -> str:
    """Return curves with their names at their ends.

    The range of y starts at 0 with ``from_zero``, that of x at ``start``; x counts what ``along`` names.
    """
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return "<p>nothing to show</p>"
    right = max(RIGHT, 12 + LETTER * max(len(line.name) for line in lines))
    low = 0.0 if from_zero else min(float((line.y - line.half).min()) for line in lines)
    high = max(float((line.y + line.half).max()) for line in lines)
    step = tick_step(high - low)
    low, high = math.floor(low / step) * step, max(math.ceil(high / step), math.floor(low / step) + 1) * step
    last = max(int(line.x.max()) for line in lines)
    wide, tall = WIDTH - LEFT - right, HEIGHT - TOP - BOTTOM

    def pixel(x: float, y: float) -> tuple[float, float]:
        return LEFT + (x - start) / max(last - start, 1) * wide, TOP + (high - y) / (high - low) * tall

    parts = []
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        _, y = pixel(start, value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line, #ccc)"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{SOFT}">{value:.4g}</text>')
    x_step = max(tick_step(last - start), 1.0)
    for number in range(int((last - start) / x_step) + 1):
        x, _ = pixel(start + number * x_step, low)
        text = f"{start + number * x_step:,.0f}" + (f" {along}" if number == 0 else "")
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle" fill="{SOFT}">{text}</text>')
    ends = spread([pixel(line.x[-1], line.y[-1])[1] for line in lines])
    for line, end in zip(lines, ends, strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(pixel, line.x, line.y))
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dashes}/>')
        for at, above, below in zip(line.x, line.y + line.half, line.y - line.half, strict=True):
            (x, top), (_, bottom) = pixel(at, above), pixel(at, below)
            if top < bottom:
                ends_of = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"'
                parts.append(f'<line {ends_of} stroke="{line.colour}"/>')
        parts.append(f'<text x="{WIDTH - right + 6}" y="{end + 4:.1f}" fill="{line.colour}">{escape(line.name)}</text>')
    return picture(WIDTH, HEIGHT, parts)


def dot_chart(rows: Mapping[str, Mapping[str, Mean]]) -> str:
    """Return a picture with a group of dots for each row, a dot with its 95% interval for each name, in percent."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    colour = dict(zip(names, COLOURS * 3, strict=False))
    means = [mean for row in rows.values() for mean in row.values()]
    low = min([0.0, *(100 * (mean.value - (mean.half or 0.0)) for mean in means)])
    high = max([1.0, *(100 * (mean.value + (mean.half or 0.0)) for mean in means)])

    def x(value: float) -> float:
        return DOTS_LEFT + (value - low) / (high - low) * (DOTS_WIDTH - DOTS_LEFT - DOTS_RIGHT)

    parts, top = [], HEAD
    for title, row in rows.items():
        parts.append(f'<text x="8" y="{top + 12}" font-weight="600" fill="var(--ink, #222)">{escape(title)}</text>')
        top += LINE
        for name, mean in row.items():
            y, value, half = top + LINE / 2, 100 * mean.value, 100 * (mean.half or 0.0)
            hint = f"{escape(name)}: {value:+.1f} ± {half:.1f}%"
            parts.append(
                f'<g stroke="{colour[name]}" fill="{colour[name]}"><title>{hint}</title>'
                f'<line x1="{x(value - half):.1f}" x2="{x(value + half):.1f}" y1="{y}" y2="{y}" stroke-width="2"/>'
                f'<circle cx="{x(value):.1f}" cy="{y}" r="4"/></g>'
                f'<text x="{DOTS_LEFT - 10}" y="{y + 4}" text-anchor="end" fill="{SOFT}">{escape(name)}</text>'
            )
            top += LINE
        top += 8
    step = tick_step(high - low)
    ticks = [
        f'<text x="{x(step * number):.1f}" y="14" text-anchor="middle" fill="{SOFT}">{step * number:+g}%</text>'
        for number in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]
    zero = f'<line x1="{x(0)}" x2="{x(0)}" y1="20" y2="{top}" stroke="var(--line, #ccc)"/>'
    return picture(DOTS_WIDTH, top, [*ticks, zero, *parts])


def tick_step(span: float) -> float:
    """Return a round distance of ticks such that a span has three to six.

    >>> [tick_step(span) for span in (1.0, 7.0, 30000)]
    [0.25, 2.0, 10000.0]
    """
    power = 10.0 ** math.floor(math.log10(span)) if span > 0 else 1.0
    return next(factor * power for factor in (0.25, 0.5, 1.0, 2.0, 2.5, 5.0) if span <= 5 * factor * power)


def spread(heights: Sequence[float]) -> list[float]:
    """Return heights of labels at least a label apart, as close to the wanted ones as their order allows.

    >>> spread([10.0, 12.0, 100.0])
    [10.0, 25.0, 100.0]
    """
    moved = list(heights)
    previous = -math.inf
    for index in sorted(range(len(heights)), key=heights.__getitem__):
        moved[index] = previous = max(heights[index], previous + LABEL)
    over = max(moved, default=0.0) - (HEIGHT - BOTTOM)
    return [height - over for height in moved] if over > 0 else moved
