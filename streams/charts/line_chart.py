"""Curves as an SVG picture that follows the page's colours in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from streams.charts.page import picture

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 92, 10, 28
LABEL = 15  # pixels that a curve's name needs


@dataclass(frozen=True, slots=True)
class Line:
    """One curve with its name and colour."""

    name: str
    colour: str
    x: NDArray[np.int64]
    y: NDArray[np.float64]


def line_chart(lines: Sequence[Line], *, from_zero: bool = False) -> str:
    """Return curves with their names at their ends; the range of y starts at 0 if told."""
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return "<p>nothing to show</p>"
    low = 0.0 if from_zero else min(float(line.y.min()) for line in lines)
    high = max(float(line.y.max()) for line in lines)
    step = tick_step(high - low)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    last = max(int(line.x.max()) for line in lines)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / last * wide, TOP + (high - y) / (high - low) * tall

    parts = []
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        _, y = place(0, value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="var(--soft)">{value:.4g}</text>')
    x_step = tick_step(last)
    for number in range(int(last / x_step) + 1):
        x, _ = place(number * x_step, low)
        text = f"{number * x_step:,.0f}" + (" lists" if number == 0 else "")
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle" fill="var(--soft)">{text}</text>')
    ends = spread([place(line.x[-1], line.y[-1])[1] for line in lines])
    for line, end in zip(lines, ends, strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*at) for at in zip(line.x, line.y, strict=True)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{end + 4:.1f}" fill="{line.colour}">{escape(line.name)}</text>')
    return picture(WIDTH, HEIGHT, parts)


def tick_step(span: float) -> float:
    """Return a round distance of ticks such that a span has three to six.

    >>> [tick_step(span) for span in (1.0, 7.0, 30000)]
    [0.25, 2.0, 10000.0]
    """
    power = 10.0 ** math.floor(math.log10(span)) if span > 0 else 1.0
    return next(factor * power for factor in (0.25, 0.5, 1.0, 2.0, 2.5, 5.0) if span <= 5 * factor * power)


def spread(places: Sequence[float]) -> list[float]:
    """Return label places at least a label apart, as close to the wanted ones as their order allows.

    >>> spread([10.0, 12.0, 100.0])
    [10.0, 25.0, 100.0]
    """
    moved = list(places)
    previous = -math.inf
    for index in sorted(range(len(places)), key=places.__getitem__):
        moved[index] = previous = max(places[index], previous + LABEL)
    over = max(moved, default=0.0) - (HEIGHT - BOTTOM)
    return [place - over for place in moved] if over > 0 else moved
