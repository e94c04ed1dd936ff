"""Dots of several colours around a diagonal, as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

import numpy as np
from numpy.typing import NDArray

from streams.charts.line_chart import SOFT, tick_step
from streams.charts.page import picture

WIDTH, HEIGHT, EDGE = 640, 360, 46


def scatter(
    x: NDArray[np.float64], series: Mapping[str, tuple[str, NDArray[np.float64]]], *, across: str, up: str
) -> str:
    """Return dots at (x, y) for each named series of a colour and its y, with the diagonal on which x = y.

    ``across`` and ``up`` say what x and y are.
    """
    every = np.concatenate([x, *(y for _, y in series.values())])
    low, high = float(every.min()) - 0.02, float(every.max()) + 0.02

    def right(value: float) -> float:
        return EDGE + (value - low) / (high - low) * (WIDTH - 2 * EDGE)

    def down(value: float) -> float:
        return HEIGHT - EDGE - (value - low) / (high - low) * (HEIGHT - 2 * EDGE)

    ends = f'x1="{right(low)}" y1="{down(low)}" x2="{right(high)}" y2="{down(high)}"'
    parts = [
        f'<line {ends} stroke="var(--line, #ccc)" stroke-dasharray="4 4"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="{SOFT}">{escape(across)}</text>',
        f'<text x="12" y="{EDGE - 18}" fill="{SOFT}">{escape(up)}</text>',
    ]
    step = tick_step(high - low)
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        value, text = number * step, f"{number * step:.4g}</text>"
        parts.append(f'<text x="{right(value):.0f}" y="{HEIGHT - EDGE + 18}" text-anchor="middle" fill="{SOFT}">{text}')
        parts.append(f'<text x="{EDGE - 6}" y="{down(value) + 4:.0f}" text-anchor="end" fill="{SOFT}">{text}')
    for row, (name, (colour, y)) in enumerate(series.items()):
        dots = "".join(
            f'<circle cx="{right(at):.1f}" cy="{down(value):.1f}" r="4.5">'
            f"<title>{escape(f'{name}: {up} {value:.3f}, {across} {at:.3f}')}</title></circle>"
            for at, value in zip(x.tolist(), y.tolist(), strict=True)
        )
        parts.append(f'<g fill="{colour}" fill-opacity="0.85">{dots}</g>')
        parts.append(f'<circle cx="{EDGE + 14}" cy="{EDGE + 4 + 18 * row}" r="4.5" fill="{colour}"/>')
        parts.append(f'<text x="{EDGE + 24}" y="{EDGE + 8 + 18 * row}">{escape(name)}</text>')
    return picture(WIDTH, HEIGHT, parts)
