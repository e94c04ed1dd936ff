"""Curves of an experiment as PNG, drawn by matplotlib."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from learner.experiments.online import by_day
from learner.experiments.summary import METRICS, Metric
from streams.offline.extras import needed

if TYPE_CHECKING:
    from streams.offline.experiment_report import Section

LABELS = {"ctr_sum": "CTR_sum", "ctr_set": "CTR_set"}
DASHED = ("random", "oracle")


def figures(section: Section) -> dict[str, bytes]:
    """Return the figures of a section as PNG by name: like the paper's, over K and over rounds, or by hour and day."""
    if section.by_hour:
        return {"hours": curves(section, section.sizes), "days": days(section)}
    found = {"sizes": over_sizes(section)} if len(section.sizes) > 1 else {}
    return found | {"rounds": curves(section, sorted({section.sizes[0], section.sizes[-1]}))}


def over_sizes(section: Section) -> bytes:
    """Draw both click rates against K."""
    figure, axes = panels(1)
    for axis, metric in zip(axes[0], METRICS, strict=True):
        for name in dict.fromkeys(row.name for row in section.rows):
            found = [row for row in section.rows if row.name == name]
            halves = [row.ctr[metric].half or 0.0 for row in found]
            values = [row.ctr[metric].value for row in found]
            axis.errorbar([row.size for row in found], values, yerr=halves, label=name, **style(name), capsize=2)
        axis.set(xlabel="K", ylabel=LABELS[metric], xticks=section.sizes)
    return png(figure, axes)


def curves(section: Section, sizes: list[int]) -> bytes:
    """Draw the cumulative means of both click rates against rounds, or against hours."""
    figure, axes = panels(len(sizes))
    along = np.arange(1, len(section.checkpoints) + 1) if section.by_hour else np.array(section.checkpoints)
    for line, size in zip(axes, sizes, strict=True):
        for axis, metric in zip(line, METRICS, strict=True):
            for row in section.of(size):
                axis.plot(along, row.curve[metric], label=row.name, **style(row.name))
            axis.set(xlabel="hour" if section.by_hour else "rounds", ylabel=f"{LABELS[metric]}, K = {size}")
    return png(figure, axes)


def days(section: Section) -> bytes:
    """Draw both click rates of each day as bars, in the order of the table."""
    figure, axes = panels(1)
    rounds = np.array(section.checkpoints)
    for axis, metric in zip(axes[0], METRICS, strict=True):
        for place, row in enumerate(section.rows):
            values = by_day(rounds, np.array(row.curve[metric]))
            left, width = np.arange(len(values)) + place / (len(section.rows) + 1), 1 / (len(section.rows) + 2)
            axis.bar(left, values, width, label=row.name, color=style(row.name).get("color"))
        axis.set(xlabel="day", ylabel=LABELS[metric], xticks=range(len(values)), xticklabels=range(1, len(values) + 1))
        axis.set_ylim(0.9 * lowest(section, metric))
    return png(figure, axes)


def lowest(section: Section, metric: Metric) -> float:
    """Return the smallest click rate of any row, where the bars' axis begins."""
    return min(row.ctr[metric].value for row in section.rows)


def panels(lines: int) -> tuple[Any, Any]:
    """Return a figure with two panels a line, one per metric."""
    figure: Any = needed("matplotlib.figure", extra="science").Figure(figsize=(12, 4.2 * lines), layout="constrained")
    return figure, figure.subplots(lines, 2, squeeze=False)


def png(figure: Any, axes: Any) -> bytes:
    """Return a figure with one legend as PNG."""
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def style(name: str) -> dict[str, Any]:
    """Return how a line is drawn: the bounds dashed and grey."""
    return {"linestyle": "--", "color": "grey" if name == "random" else "black"} if name in DASHED else {}
